#include "model/forward.h"

#include <algorithm>
#include <cstring>

#include "base/planted.h"

namespace deepinfer {

Forward::Forward(Model& model, std::span<const Run> runs, Probe* probe)
    : model_(model), runs_(runs), probe_(probe), run_count_(static_cast<int64_t>(runs.size())) {
  std::byte* memory = model.memory_.get();
  memory += -reinterpret_cast<uintptr_t>(memory) & 63;
  arena_ = Arena(memory, model.arena_bytes_);
  context_ = {model.pool_.get(), &arena_, memory + model.arena_bytes_, model.thread_scratch_bytes_};
  const ModelLimits& options = model.limits_;
  b_ = StepBuffers::carve(arena_, config(), options.max_step_tokens, options.max_runs, options.max_logit_rows);
}

void Forward::linear(Rows<const bf16> x, const Matrix& w, Rows<bf16> out) {
  kernels().linear(context_, {x, w, out, {}});
}
void Forward::linear_f32(Rows<const bf16> x, const Matrix& w, Rows<float> out) {
  kernels().linear(context_, {x, w, {}, out});
}

// Run views, tokens and positions of all rows.
void Forward::set_rows() {
  rows_ = 0;
  for (int64_t r = 0; r < run_count_; ++r) {
    const Run& run = runs_[static_cast<size_t>(r)];
    const int64_t start = run.state->length();
    b_.views[r] = {start, rows_, static_cast<int64_t>(run.tokens.size()), 0};
    for (const int32_t token : run.tokens) {
      b_.positions[rows_] = start + rows_ - b_.views[r].first_row;
      b_.tokens[rows_] = token;
      b_.image[rows_] = token == config().image_token_id;
      ++rows_;
    }
  }
  rope_tables();
}

void Forward::rope_tables() {
  const int64_t half = config().qk_rope_head_dim / 2;
  kernels().rope_table(context_, {b_.positions, rows_, model_.window_frequencies_.data(), half, b_.cos[0], b_.sin[0]});
  kernels().rope_table(context_,
                       {b_.positions, rows_, model_.compressed_frequencies_.data(), half, b_.cos[1], b_.sin[1]});
}

void Forward::embed() {
  kernels().embed(
      context_, {b_.tokens, rows_, model_.weights_.embed, view(b_.x, kHcMult * config().hidden_size), b_.ffn_mix.pre});
  pending_ = nullptr;
}

// Writes the last sublayer's output back into the stream (spec 4.2), where that cannot ride on the next enter().
void Forward::leave() {
  if (pending_ == nullptr) return;
  HcSeamArgs seam;
  seam.x = view(b_.x, kHcMult * config().hidden_size);
  seam.d = config().hidden_size;
  seam.y = view(b_.y, config().hidden_size);
  seam.left = *pending_;
  kernels().hc_seam(context_, seam);
  pending_ = nullptr;
}

// The seam before a sublayer: write back, mix, collapse by `pre`, norm, quantise (spec 4.1 to 4.3).
void Forward::enter(const HcWeights& hc, const bf16* norm, const HcMix& mix, const float* pre, Point x_point, int layer,
                    int tap) {
  const int64_t d = config().hidden_size;
  if (probe_ != nullptr) {
    leave();
    probe(x_point, layer, view(b_.x, kHcMult * d));
    if (x_point == Point::x_in) probe(Point::pre_in, layer, view(const_cast<float*>(pre), kHcMult));
  }
  HcSeamArgs seam;
  seam.x = view(b_.x, kHcMult * d);
  seam.d = d;
  if (pending_ != nullptr) {
    seam.y = view(b_.y, d);
    seam.left = *pending_;
  }
  const int64_t taps = static_cast<int64_t>(config().dspark_target_layer_ids.size());
  if (tap >= 0) seam.tap = {b_.taps + tap * d, rows_, d, taps * d};
  seam.fn = hc.fn;
  seam.base = hc.base;
  seam.scale = hc.scale;
  seam.norm_eps = config().rms_norm_eps;
  seam.hc_eps = config().hc_eps;
  seam.iterations = config().hc_sinkhorn_iters;
  seam.entered = mix;
  seam.pre_in = pre;
  seam.norm_weight = norm;
  seam.h = view(b_.h, d);
  seam.hq = view(b_.hq, d);
  kernels().hc_seam(context_, seam);
  pending_ = nullptr;
  if (probe_ != nullptr) {
    const bool attn = x_point == Point::x_in;
    probe(attn ? Point::hc_attn_pre : Point::hc_ffn_pre, layer, view(mix.pre, kHcMult));
    probe(attn ? Point::hc_attn_post : Point::hc_ffn_post, layer, view(mix.post, kHcMult));
    probe(attn ? Point::hc_attn_comb : Point::hc_ffn_comb, layer, view(mix.comb, kHcMult * kHcMult));
    probe(attn ? Point::attn_in : Point::ffn_in, layer, view(b_.h, d));
    kernels().act_quant(context_, {view(b_.h, d), view(b_.hq, d)});
  }
}

// Spec 4.3. The pre mix that collapses the stream comes from the sublayer before.
Status Forward::block(const BlockWeights& w, int layer) {
  const int64_t d = config().hidden_size;
  enter(w.hc_attn, w.attn_norm, b_.attn_mix, b_.ffn_mix.pre, Point::x_in, layer, w.role.tap);
  if (w.role.owns_kv) compress(w, layer);
  if (!draft_ && layer == model_.layout_->decoder_start) cut_to_suffix();
  if (rows_ == 0) return {};
  attention(w, layer);
  probe(Point::attn_out, layer, view(b_.y, d));
  pending_ = &b_.attn_mix;
  const float* pre = planted(Fault::pre_mix) ? b_.ffn_mix.pre : b_.attn_mix.pre;
  enter(w.hc_ffn, w.ffn_norm, b_.ffn_mix, pre, Point::x_mid, layer, -1);
  DI_RETURN_IF_ERROR(experts(w, layer));
  probe(Point::ffn_out, layer, view(b_.y, d));
  pending_ = &b_.ffn_mix;
  if (probe_ != nullptr) {
    leave();
    probe(draft_ ? Point::draft_x : Point::x_out, layer, view(b_.x, kHcMult * d));
    probe(Point::pre_out, layer, view(b_.ffn_mix.pre, kHcMult));
  }
  return {};
}

// Bounded replay (spec 10): from here on only each run's positions >= decoder_from. Nothing to do when those are all.
void Forward::cut_to_suffix() {
  const int64_t d = config().hidden_size, taps = static_cast<int64_t>(config().dspark_target_layer_ids.size());
  int64_t to = 0;
  const auto move = [&](auto* data, int64_t from, int64_t count, int64_t cols) {
    std::memmove(data + to * cols, data + from * cols, static_cast<size_t>(count * cols) * sizeof(*data));
  };
  for (int64_t r = 0; r < run_count_; ++r) {
    RunView& v = b_.views[r];
    const int64_t skip = std::clamp<int64_t>(runs_[static_cast<size_t>(r)].decoder_from - v.start, 0, v.rows);
    const int64_t from = v.first_row + skip, count = v.rows - skip;
    move(b_.x, from, count, kHcMult * d);
    move(b_.h, from, count, d);
    move(b_.hq, from, count, d);
    move(b_.attn_mix.pre, from, count, kHcMult);
    move(b_.attn_mix.post, from, count, kHcMult);
    move(b_.attn_mix.comb, from, count, kHcMult * kHcMult);
    move(b_.taps, from, count, taps * d);
    move(b_.positions, from, count, int64_t{1});
    move(b_.tokens, from, count, int64_t{1});
    move(b_.image, from, count, int64_t{1});
    v = {v.start + skip, to, count, runs_[static_cast<size_t>(r)].state->window_begin()};
    to += count;
  }
  if (to == rows_) return;
  rows_ = to;
  rope_tables();
}

StepResult Forward::head() {
  const int64_t d = config().hidden_size;
  leave();
  HcSeamArgs seam;
  seam.x = view(b_.x, kHcMult * d);
  seam.d = d;
  seam.norm_eps = config().rms_norm_eps;
  seam.pre_in = b_.ffn_mix.pre;
  seam.norm_weight = model_.weights_.norm;
  seam.collapsed = view(b_.collapsed, d);
  seam.h = view(b_.h, d);
  kernels().hc_seam(context_, seam);
  int64_t wanted = 0;
  for (int64_t r = 0; r < run_count_; ++r) {
    const RunView& v = b_.views[r];
    const LogitRows rows = runs_[static_cast<size_t>(r)].logits;
    const int64_t count = rows == LogitRows::none ? 0 : rows == LogitRows::last ? std::min<int64_t>(1, v.rows) : v.rows;
    std::memcpy(b_.head_in + wanted * d, b_.h + (v.first_row + v.rows - count) * d,
                static_cast<size_t>(count * d) * sizeof(bf16));
    wanted += count;
  }
  const Rows<float> logits = rows_of(b_.logits, wanted, config().vocab_size);
  linear_f32(rows_of(b_.head_in, wanted, d), model_.weights_.head, logits);
  probe(Point::logits, -1, logits);
  const Rows<bf16> taps = view(b_.taps, d * static_cast<int64_t>(config().dspark_target_layer_ids.size()));
  probe(Point::main_hidden, -1, taps);
  return {logits, taps};
}

Result<StepResult> Forward::run() {
  const KernelFloatMode float_mode;
  set_rows();
  embed();
  classes();
  for (size_t l = 0; l < model_.weights_.layers.size(); ++l) {
    const BlockWeights& w = model_.weights_.layers[l];
    const int layer = static_cast<int>(l);
    if (rows_ > 0 && w.engram.has_value()) DI_RETURN_IF_ERROR(engram(w, layer));
    if (rows_ > 0) DI_RETURN_IF_ERROR(block(w, layer));
  }
  const StepResult result = head();
  if (model_.layout_->draft_stages > 0) feed_rings(result.main_hidden);
  store_tail();
  for (const Run& run : runs_) run.state->advance(run.state->length() + static_cast<int64_t>(run.tokens.size()));
  return result;
}

}  // namespace deepinfer
