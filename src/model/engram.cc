// Engram layers (spec 8): classes of the last tokens, hash, table rows, gated write.
#include <algorithm>

#include "model/forward.h"

namespace deepinfer {
namespace {

constexpr int32_t kBeforeSequence = -2;
constexpr int32_t kImageClass = -1;

}  // namespace

// Per run: the classes of max_ngram - 1 earlier tokens, then of its own.
void Forward::classes() {
  const int64_t tail = model_.layout_->tail_live;
  int32_t* out = b_.classes;
  for (int64_t r = 0; r < run_count_; ++r) {
    const Run& run = runs_[static_cast<size_t>(r)];
    const RunView& v = b_.views[r];
    for (int64_t p = v.start - tail; p < v.start; ++p) {
      *out++ = p < 0 ? kBeforeSequence : run.state->tail()[p % model_.layout_->tail_rows];
    }
    for (const int32_t token : run.tokens) {
      *out++ = token == config().image_token_id ? kImageClass : model_.token_map_[static_cast<size_t>(token)];
    }
  }
}

// The last classes of each run go into its state.
void Forward::store_tail() {
  const StateLayout& layout = *model_.layout_;
  const int32_t* in = b_.classes;
  for (const Run& run : runs_) {
    in += layout.tail_live;
    const int64_t count = static_cast<int64_t>(run.tokens.size()), start = run.state->length();
    for (int64_t i = std::max<int64_t>(0, count - layout.tail_rows); i < count; ++i) {
      run.state->tail()[(start + i) % layout.tail_rows] = in[i];
    }
    in += count;
  }
}

Status Forward::engram(const BlockWeights& w, int layer) {
  const ModelConfig& c = config();
  const EngramWeights& e = *w.engram;
  const int64_t d = c.hidden_size, columns = (c.engram_max_ngram_size - 1) * c.engram_n_heads;
  leave();
  probe(Point::engram_in, layer, view(b_.x, kHcMult * d));
  const int64_t mark = arena_.mark();
  const int32_t** runs = arena_.take<const int32_t*>(run_count_);
  const int32_t* at = b_.classes;
  for (int64_t r = 0; r < run_count_; ++r) {
    at += model_.layout_->tail_live;
    runs[r] = at;
    at += b_.views[r].rows;
  }
  EngramHashArgs hash;
  hash.classes = runs;
  hash.runs = b_.views;
  hash.run_count = run_count_;
  hash.max_ngram = c.engram_max_ngram_size;
  hash.heads = c.engram_n_heads;
  hash.multipliers = e.constants.multipliers.data();
  hash.primes = e.constants.primes.data();
  hash.offsets = e.constants.offsets.data();
  hash.pad_class = model_.token_map_[static_cast<size_t>(c.engram_pad_token_id)];
  hash.ids = view(b_.hash, columns);
  kernels().engram_hash(context_, hash);
  arena_.release(mark);
  probe(Point::engram_hash, layer, hash.ids);
  if (!model_.checkpoint_->scales_checked()) {
    // Tables whose scales were too many to scan at load: the rows in use are looked at now.
    const int64_t scales = c.engram_head_dim / 32;
    for (int64_t i = 0; i < rows_ * columns; ++i) {
      for (int64_t s = 0; s < scales; ++s) {
        if (e.scales[b_.hash[i] * scales + s] == kE8M0Nan) {
          return error(Code::data_loss, "layers.{}.engram.embed.scale: NaN in row {}", layer, b_.hash[i]);
        }
      }
    }
  }
  kernels().engram_gather(
      context_, {hash.ids, e.codes, e.scales, c.engram_head_dim, view(b_.engram_rows, columns * c.engram_head_dim)});
  const Rows<bf16> rows = view(b_.engram_rows, columns * c.engram_head_dim);
  kernels().act_quant(context_, {rows, rows});
  linear(rows, e.wkv, view(b_.engram_kv, (kHcMult + 1) * d));
  EngramWriteArgs write;
  write.x = view(b_.x, kHcMult * d);
  write.d = d;
  write.kv = view(b_.engram_kv, (kHcMult + 1) * d);
  write.q_weight = e.q_weight;
  write.k_weight = e.k_weight;
  write.eps = c.rms_norm_eps;
  write.image = b_.image;
  write.gate = b_.engram_gate;
  kernels().engram_write(context_, write);
  probe(Point::engram_gate, layer, view(b_.engram_gate, kHcMult));
  probe(Point::engram_out, layer, view(b_.x, kHcMult * d));
  return {};
}

}  // namespace deepinfer
