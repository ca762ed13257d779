#include "sampling/logprobs.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "numerics/exp_row.h"
#include "numerics/math.h"
#include "sampling/rank.h"
#include "sampling/sampler.h"

namespace deepinfer {
namespace {

constexpr size_t kLanes = 16;

}  // namespace

Result<RowMaximum> row_maximum(std::span<const float> logits) {
  // Bits of floats, made to compare as integers: such reductions become vector code, and every NaN lies outside the
  // infinities.
  constexpr int32_t kInfinity = 0x7F800000, kMinusInfinity = ~kInfinity;
  int32_t highest = kMinusInfinity, lowest = kInfinity;
  for (const float x : logits) {
    const auto bits = std::bit_cast<int32_t>(x);
    const int32_t ordered = bits ^ ((bits >> 31) & 0x7FFFFFFF);
    highest = std::max(highest, ordered);
    lowest = std::min(lowest, ordered);
  }
  if (highest > kInfinity || lowest < kMinusInfinity) {
    const auto at = std::find_if(logits.begin(), logits.end(), [](float x) { return x != x; });
    return error(Code::internal, "logits: NaN at id {}", at - logits.begin());
  }
  const auto maximum = std::bit_cast<float>(highest ^ ((highest >> 31) & 0x7FFFFFFF));
  const auto at =
      std::find(logits.begin(), logits.end(), maximum);  // equal, so that -0 is found where +0 is the maximum
  if (highest == kInfinity) return error(Code::internal, "logits: +infinity at id {}", at - logits.begin());
  if (highest == kMinusInfinity) {
    return error(Code::internal, "logits: no token of {} has a finite logit", logits.size());
  }
  return RowMaximum{maximum, static_cast<int32_t>(at - logits.begin())};
}

double log_sum_exp(std::span<const float> logits, float maximum) {
  double lane[kLanes] = {};
  const double shift = maximum;
  const size_t whole = logits.size() / kLanes * kLanes;
  for (size_t i = 0; i < whole; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lane[j] += exp_row(static_cast<double>(logits[i + j]) - shift);
  }
  for (size_t i = whole; i < logits.size(); ++i) lane[i - whole] += exp_row(static_cast<double>(logits[i]) - shift);
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
  }
  return log64(lane[0]);
}

Result<std::vector<TokenLogprob>> top_logprobs(std::span<const float> logits, size_t count, Scratch& scratch) {
  DI_ASSIGN_OR_RETURN(const RowMaximum maximum, row_maximum(logits));
  std::vector<TokenLogprob> out;
  if (count == 0) return out;
  // A heap of the best so far: nearly every token fails the first comparison.
  std::vector<uint64_t>& best = scratch.keys;
  best.clear();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] == -std::numeric_limits<float>::infinity()) continue;
    const uint64_t key = rank_key(logits[i], static_cast<uint32_t>(i));
    if (best.size() == count && key < best.front()) continue;
    if (best.size() == count) {
      std::pop_heap(best.begin(), best.end(), std::greater<>());
      best.pop_back();
    }
    best.push_back(key);
    std::push_heap(best.begin(), best.end(), std::greater<>());
  }
  std::sort(best.begin(), best.end(), std::greater<>());
  const double log_sum = log_sum_exp(logits, maximum.value);
  for (const uint64_t key : best) {
    const int32_t id = rank_id(key);
    out.push_back({id, logprob_of(logits[static_cast<size_t>(id)], maximum.value, log_sum)});
  }
  return out;
}

}  // namespace deepinfer
