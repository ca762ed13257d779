// DSpark (spec 9): draft rings fed from the taps of main positions, and the draft block with its Markov and confidence heads.
#include <algorithm>
#include <cstring>

#include "base/planted.h"
#include "model/forward.h"

namespace deepinfer {
namespace {

// The largest value, lowest index on ties.
int32_t argmax(const float* row, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (row[i] > row[best]) best = i;
  }
  return static_cast<int32_t>(best);
}

}  // namespace

// main_x = main_norm(main_proj(main_hidden)); each stage keeps its window rows of main positions.
void Forward::feed_rings(Rows<const bf16> main_hidden) {
  const ModelConfig& c = config();
  const DraftWeights& w = model_.weights_.draft;
  const StateLayout& layout = *model_.layout_;
  const int64_t mark = arena_.mark();
  const Rows<bf16> taps = rows_of(arena_.take<bf16>(rows_ * main_hidden.cols), rows_, main_hidden.cols);
  kernels().act_quant(context_, {main_hidden, taps});
  linear(taps, w.main_proj, view(b_.h, c.hidden_size));
  kernels().rms_norm(context_, {view(b_.h, c.hidden_size), w.main_norm, c.rms_norm_eps, view(b_.h, c.hidden_size),
                                view(b_.hq, c.hidden_size)});
  for (size_t s = 0; s < w.stages.size(); ++s) {
    window(w.stages[s].attn, view(b_.hq, c.hidden_size), false);
    for (int64_t r = 0; r < run_count_; ++r) {
      b_.rings[r] = runs_[static_cast<size_t>(r)].state->ring(layout.layers + static_cast<int64_t>(s));
    }
    kernels().ring_store(context_,
                         {b_.views, run_count_, b_.window_rows, layout.window_row_bytes, b_.rings, layout.ring_rows});
  }
  arena_.release(mark);
}

Status Forward::run_feed(int64_t first_position, Rows<const bf16> main_hidden) {
  const KernelFloatMode float_mode;
  rows_ = main_hidden.rows;
  b_.views[0] = {first_position, 0, rows_, 0};
  for (int64_t i = 0; i < rows_; ++i) b_.positions[i] = first_position + i;
  rope_tables();
  feed_rings(main_hidden);
  return {};
}

Result<DraftResult> Forward::run_draft(std::span<const DraftRun> drafts) {
  const KernelFloatMode float_mode;
  const ModelConfig& c = config();
  const DraftWeights& w = model_.weights_.draft;
  const int64_t d = c.hidden_size, block_size = c.dspark_block_size, vocab = c.vocab_size, rank = c.dspark_markov_rank;
  draft_ = true;
  rows_ = 0;
  for (int64_t r = 0; r < run_count_; ++r) {
    const SequenceState& state = *drafts[static_cast<size_t>(r)].state;
    b_.views[r] = {state.length(), rows_, block_size, state.window_begin()};
    for (int64_t i = 0; i < block_size; ++i, ++rows_) {
      b_.positions[rows_] = state.length() + i;
      b_.tokens[rows_] = i == 0 ? drafts[static_cast<size_t>(r)].token : c.dspark_noise_token_id;
    }
  }
  rope_tables();
  embed();
  for (size_t s = 0; s < w.stages.size(); ++s) DI_RETURN_IF_ERROR(block(w.stages[s], static_cast<int>(s)));
  leave();

  HcSeamArgs seam;
  seam.x = view(b_.x, kHcMult * d);
  seam.d = d;
  seam.norm_eps = c.rms_norm_eps;
  seam.pre_in = b_.ffn_mix.pre;
  seam.norm_weight = w.norm;
  seam.collapsed = view(b_.collapsed, d);
  seam.h = view(b_.h, d);
  kernels().hc_seam(context_, seam);
  const Rows<float> logits = rows_of(b_.logits, rows_, vocab);
  linear_f32(view(b_.h, d), model_.weights_.head, logits);

  // Position after position: the Markov head sees the id before.
  DraftResult result;
  result.ids.resize(static_cast<size_t>(run_count_ * (block_size + 1)));
  result.confidence.resize(static_cast<size_t>(run_count_ * block_size));
  result.logits = logits;
  const int64_t mark = arena_.mark();
  const Rows<float> bias = rows_of(arena_.take<float>(vocab), 1, vocab);
  const Rows<bf16> features = rows_of(arena_.take<bf16>(d + rank), 1, d + rank);
  for (int64_t r = 0; r < run_count_; ++r) {
    int32_t* ids = result.ids.data() + r * (block_size + 1);
    ids[0] = drafts[static_cast<size_t>(r)].token;
    for (int64_t i = 0; i < block_size; ++i) {
      const int64_t row = r * block_size + i;
      const bf16* previous = w.markov_embed + ids[i] * rank;
      linear_f32({previous, 1, rank, rank}, w.markov_head, bias);
      float* out = logits.row(row);
      for (int64_t v = 0; v < vocab; ++v) out[v] = out[v] + bias.data[v];
      ids[i + 1] = argmax(out, vocab);
      const bf16* h = planted(Fault::confidence_input) ? b_.h : b_.collapsed;
      std::memcpy(features.data, h + row * d, static_cast<size_t>(d) * sizeof(bf16));
      std::memcpy(features.data + d, previous, static_cast<size_t>(rank) * sizeof(bf16));
      linear_f32(features, w.confidence, rows_of(result.confidence.data() + row, 1, 1));
    }
  }
  arena_.release(mark);
  return result;
}

}  // namespace deepinfer
