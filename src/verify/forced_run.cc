#include "verify/forced_run.h"

#include <algorithm>

namespace deepinfer {

ForcedRun::Rules ForcedRun::rules(Point point, const GoldenLayer& layer) const {
  const bool sublayers = forced_ == Forced::sublayers;
  switch (point) {
    case Point::attn_in:
      return {&layer.attn_in, !sublayers, sublayers};
    case Point::ffn_in:
      return {&layer.ffn_in, !sublayers, sublayers};
    case Point::attn_out:
      return {&layer.attn_out, true, false};
    case Point::ffn_out:
      return {&layer.ffn_out, sublayers, false};
    case Point::x_in:
      return {&layer.x_in, false, !sublayers};
    case Point::x_mid:
      return {&layer.x_mid, forced_ == Forced::layers, forced_ == Forced::middles};
    case Point::x_out:
      return {&layer.x_out, forced_ == Forced::layers, !sublayers};
    case Point::engram_out:
      return {&layer.engram_out, false, !sublayers};
    default:
      return {};
  }
}

const Golden<float>* ForcedRun::mix(Point point, const GoldenLayer& layer) const {
  switch (point) {
    case Point::hc_attn_pre:
      return &layer.hc[0];
    case Point::hc_attn_post:
      return &layer.hc[1];
    case Point::hc_attn_comb:
      return &layer.hc[2];
    case Point::hc_ffn_pre:
      return &layer.hc[3];
    case Point::hc_ffn_post:
      return &layer.hc[4];
    case Point::hc_ffn_comb:
      return &layer.hc[5];
    case Point::pre_out:
      return &layer.pre_out;
    case Point::engram_gate:
      return &layer.engram_gate;
    case Point::gate_w:
      return &layer.gate_w;
    default:
      return nullptr;
  }
}

bool ForcedRun::engram_given(size_t layer) const { return layer == 0 || !layers_[layer - 1].x_out.empty(); }

template <typename T>
std::pair<int64_t, int64_t> ForcedRun::covered(const Golden<T>& golden, int64_t rows) const {
  const int64_t from = std::clamp<int64_t>(first_ - start, 0, rows);
  const int64_t to = std::clamp<int64_t>(first_ + golden.rows - start, from, rows);
  return {from, to};
}

void ForcedRun::at(Point point, int layer, Rows<bf16> ours) {
  if (layer < 0) return;
  const auto l = static_cast<size_t>(layer);
  const Rules rule = rules(point, layers_[l]);
  if (rule.golden == nullptr || rule.golden->empty() || rule.golden->cols != ours.cols) return;
  const auto [from, to] = covered(*rule.golden, ours.rows);
  for (int64_t r = from; r < to; ++r) {
    const bf16* golden = rule.golden->row(start + r - first_);
    if (point == Point::engram_out && forced_ == Forced::layers && engram_given(l)) {
      for (int64_t i = 0; i < ours.cols; ++i) engram_out.add(to_float(ours.row(r)[i]) == to_float(golden[i]));
    }
    if (rule.compare && compared_[l]) row_errors_[point][layer].push_back(row_error(ours.row(r), golden, ours.cols));
    if (rule.force) std::copy_n(golden, ours.cols, ours.row(r));
  }
}

void ForcedRun::at(Point point, int layer, Rows<float> ours) {
  if (layer < 0) return;
  const auto l = static_cast<size_t>(layer);
  const Golden<float>* golden = mix(point, layers_[l]);
  if (golden == nullptr || golden->empty()) return;
  const bool compare = compared_[l] && (point != Point::engram_gate || engram_given(l));
  const auto [from, to] = covered(*golden, ours.rows);
  for (int64_t r = from; r < to; ++r) {
    const float* expected = golden->row(start + r - first_);
    if (compare)
      differences_[point].take(max_difference(ours.row(r), expected, ours.cols), fmt::format("layer {}", layer));
    if (point == Point::pre_out && forced_ != Forced::sublayers) std::copy_n(expected, ours.cols, ours.row(r));
  }
}

void ForcedRun::at(Point point, int layer, Rows<int32_t> ours) {
  const GoldenLayer& golden = layers_[static_cast<size_t>(layer)];
  if (point == Point::topk) selection.topk(layer, start, ours);
  if (point != Point::gate_idx || golden.gate_idx.empty() || !compared_[static_cast<size_t>(layer)]) return;
  const auto [from, to] = covered(golden.gate_idx, ours.rows);
  for (int64_t r = from; r < to; ++r) {
    const int32_t* expected = golden.gate_idx.row(start + r - first_);
    for (int64_t i = 0; i < ours.cols; ++i) other_experts += ours.row(r)[i] != expected[i];
    any_experts = true;
  }
}

void ForcedRun::at(Point point, int layer, Rows<int64_t> ours) {
  const Golden<int32_t>& golden = layers_[static_cast<size_t>(layer)].engram_hash;
  if (point != Point::engram_hash || golden.empty()) return;
  const auto [from, to] = covered(golden, ours.rows);
  for (int64_t r = from; r < to; ++r) {
    for (int64_t i = 0; i < ours.cols; ++i) other_hashes += ours.row(r)[i] != golden.row(start + r - first_)[i];
    any_hashes = true;
  }
}

void ForcedRun::candidates(int layer, int64_t rows, CandidateLists& lists) {
  selection.candidates(layer, start, rows, lists);
}

Rows<float> ForcedRun::wants_scores(int layer, int64_t rows) { return selection.room(layer, start, rows); }

LayerErrors ForcedRun::errors(Point point) const {
  LayerErrors all;
  const auto found = row_errors_.find(point);
  if (found == row_errors_.end()) return all;
  for (const auto& [layer, errors] : found->second) all.add(layer, errors);
  return all;
}

const Worst& ForcedRun::difference(Point point) const {
  static const Worst none;
  const auto found = differences_.find(point);
  return found == differences_.end() ? none : found->second;
}

}  // namespace deepinfer
