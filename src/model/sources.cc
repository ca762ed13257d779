// KV sources (spec 5.3, 6): compressed rows and index keys of a layer that owns them, and the selection of an index source.
#include <algorithm>
#include <cmath>

#include "base/planted.h"
#include "model/forward.h"

namespace deepinfer {

// Pages of the source's rows, for each run.
void Forward::bind_source(int layer) {
  const int source = model_.layout_->source_of(layer);
  for (int64_t r = 0; r < run_count_; ++r) b_.paged[r] = runs_[static_cast<size_t>(r)].state->rows(source);
}

// Ratio 2: pairs of tokens become one latent; a pair that began in an earlier step has its first half in the carry. Writes b_.latent and
// moves the carries on.
void Forward::pool(const BlockWeights& w, int source, int64_t& groups) {
  const ModelConfig& c = config();
  const int64_t d = c.head_dim;
  linear_f32(view(b_.h, c.hidden_size), w.attn.compressor->wkv, view(b_.pool_k, d));
  linear_f32(view(b_.h, c.hidden_size), w.attn.compressor->wgate, view(b_.pool_z, d));
  const float** k0 = arena_.take<const float*>(rows_ + run_count_);
  const float** z0 = arena_.take<const float*>(rows_ + run_count_);
  const float** k1 = arena_.take<const float*>(rows_ + run_count_);
  const float** z1 = arena_.take<const float*>(rows_ + run_count_);
  groups = 0;
  for (int64_t r = 0; r < run_count_; ++r) {
    SequenceState& state = *runs_[static_cast<size_t>(r)].state;
    const RunView& v = b_.views[r];
    for (int64_t j = v.start / 2; j < (v.start + v.rows) / 2; ++j) {
      const int64_t row =
          v.first_row + 2 * j - v.start;  // of the group's first token; before the run if that is in the carry
      if (2 * j < v.start) {
        k0[groups] = state.carry(source, 2 * j);
        z0[groups] = k0[groups] + d;
      } else {
        k0[groups] = b_.pool_k + row * d;
        z0[groups] = b_.pool_z + row * d;
      }
      k1[groups] = b_.pool_k + (row + 1) * d;
      z1[groups] = b_.pool_z + (row + 1) * d;
      ++groups;
    }
  }
  kernels().pool_pairs(context_, {groups, d, k0, z0, k1, z1, rows_of(b_.latent, groups, d)});
  for (int64_t r = 0; r < run_count_; ++r) {
    SequenceState& state = *runs_[static_cast<size_t>(r)].state;
    const RunView& v = b_.views[r];
    const int64_t end = v.start + v.rows, oldest = end - 2 * model_.layout_->carry_rows;
    for (int64_t p = (v.start + 1) / 2 * 2; p < end; p += 2) {
      if (p < oldest) continue;
      const int64_t row = v.first_row + p - v.start;
      float* carry = state.carry(source, p);
      std::copy_n(b_.pool_k + row * d, d, carry);
      std::copy_n(b_.pool_z + row * d, d, carry + d);
    }
  }
}

// All rows of the step, the replayed suffix or not: the compressed rows of a source are complete (spec 10).
void Forward::compress(const BlockWeights& w, int layer) {
  const ModelConfig& c = config();
  const int source = model_.layout_->source_of(layer);
  const int64_t ratio = w.role.compress_ratio, d = c.head_dim;
  const int64_t mark = arena_.mark();
  int64_t groups = rows_;
  if (ratio == 2) {
    pool(w, source, groups);
  } else {
    linear(view(b_.h, c.hidden_size), w.attn.compressor->wkv, view(b_.latent, d));
  }
  const Rows<bf16> latent = rows_of(b_.latent, groups, d);
  kernels().rms_norm(context_, {latent, w.attn.compressor->norm, c.rms_norm_eps, latent, {}});
  const Rows<bf16> keys = rows_of(b_.index_key, groups, c.index_head_dim);
  Rows<bf16> key_input = latent;
  if (planted(Fault::rotated_latent) && ratio == 1) {
    key_input = view(b_.kv, d);  // free until window()
    std::copy_n(latent.data, rows_ * d, key_input.data);
    kernels().rope(context_, {key_input, d, b_.cos[1], b_.sin[1], c.qk_rope_head_dim / 2, false, false});
  }
  linear(key_input, w.attn.indexer->wk, keys);

  int64_t* positions = arena_.take<int64_t>(groups);
  std::byte** kv_out = arena_.take<std::byte*>(groups);
  std::byte** key_out = arena_.take<std::byte*>(groups);
  bind_source(layer);
  int64_t g = 0;
  for (int64_t r = 0; r < run_count_; ++r) {
    const RunView& v = b_.views[r];
    for (int64_t j = v.start / ratio; j < (v.start + v.rows) / ratio; ++j, ++g) {
      positions[g] = j * ratio + (planted(Fault::compressed_position) ? ratio - 1 : 0);
      kv_out[g] = b_.paged[r].kv(j);
      key_out[g] = b_.paged[r].key(j);
    }
  }
  CompressRowsArgs args;
  args.latent = latent;
  args.index_key = keys;
  args.key_norm_weight = w.attn.indexer->k_norm;
  args.eps = c.rms_norm_eps;
  args.positions = positions;
  args.frequencies = model_.compressed_frequencies_.data();
  args.half = c.qk_rope_head_dim / 2;
  args.kv_out = kv_out;
  args.key_out = key_out;
  kernels().compress_rows(context_, args);
  arena_.release(mark);
}

// Index queries and weights, scores against the keys of the layer's own source, candidate blocks, top k (6.2 to 6.6).
void Forward::select(const BlockWeights& w, int layer) {
  const ModelConfig& c = config();
  const IndexerWeights& indexer = *w.attn.indexer;
  const int64_t width = c.index_n_heads * c.index_head_dim;
  linear(view(b_.qrq, c.q_lora_rank), indexer.wq_b, view(b_.index_q, width));
  kernels().rope(
      context_, {view(b_.index_q, width), c.index_head_dim, b_.cos[1], b_.sin[1], c.qk_rope_head_dim / 2, false, true});
  linear(view(b_.h, c.hidden_size), indexer.weights_proj, view(b_.index_w, c.index_n_heads));
  const float factor = static_cast<float>((1.0 / std::sqrt(static_cast<double>(c.index_head_dim))) *
                                          (1.0 / std::sqrt(static_cast<double>(c.index_n_heads))));
  for (int64_t i = 0; i < rows_ * c.index_n_heads; ++i) b_.index_w[i] = to_bf16(to_float(b_.index_w[i]) * factor);

  int source = w.role.kv_source;
  for (const int first : c.kv_source_layer_ids) {
    if (planted(Fault::index_key_source) && first < source &&
        w.role.compress_ratio == c.layers[static_cast<size_t>(first)].compress_ratio)
      source = first;
  }
  bind_source(source);
  IndexSelectArgs args;
  args.q = view(b_.index_q, width);
  args.weights = view(b_.index_w, c.index_n_heads);
  args.heads = c.index_n_heads;
  args.head_dim = c.index_head_dim;
  args.ratio = w.role.compress_ratio;
  args.runs = b_.views;
  args.rows = b_.paged;
  args.run_count = run_count_;
  args.block_size = c.candidate_block_size;
  args.publish_candidates = w.role.candidate_source;
  args.use_candidates = w.role.uses_candidates;
  args.candidates = b_.candidates;
  args.selected = view(b_.selected, c.index_topk);
  args.max_rows = model_.limits_.max_context;
  if (probe_ != nullptr) args.scores = probe_->wants_scores(layer, rows_);
  kernels().index_select(context_, args);
  if (probe_ == nullptr) return;
  if (args.scores.data != nullptr) probe(Point::index_score, layer, args.scores);
  if (args.publish_candidates) probe_->candidates(layer, rows_, b_.candidates);
  probe(Point::topk, layer, args.selected);
}

}  // namespace deepinfer
