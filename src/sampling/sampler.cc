#include "sampling/sampler.h"

#include <algorithm>
#include <functional>
#include <limits>

#include "numerics/exp_row.h"
#include "sampling/logprobs.h"
#include "sampling/rank.h"

namespace deepinfer {
namespace {

constexpr float kExcluded = -std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;

// argmax of logit / T + noise over the tokens it is shown, lowest id on ties. Order does not matter; showing a likely
// token first saves work, because noise is computed only where its upper bound could win.
class Race {
 public:
  Race(double temperature, const NoiseKey& key) : temperature_(temperature), stream_(row_stream(key)) {}

  void show(float logit, int32_t id) {
    const double x = static_cast<double>(logit) / temperature_;
    if (x + kLargestNoise < best_) return;
    const uint64_t word = random_word(stream_, static_cast<uint64_t>(id));
    // Adding is monotone in float64, so a bound that loses means a value that loses.
    if (x + gumbel_bound(word) < best_) return;
    const double value = x + gumbel(word);
    if (value > best_ || (value == best_ && id < id_)) best_ = value, id_ = id;
  }

  int32_t winner() const { return id_; }

 private:
  static constexpr double kLargestNoise = 53 * 0.6931471806;
  const double temperature_;
  const uint64_t stream_;
  double best_ = -std::numeric_limits<double>::infinity();
  int32_t id_ = -1;
};

// The row as the filters see it.
class Filter {
 public:
  Filter(std::span<const float> logits, const SamplingParams& params, const RowMaximum& maximum, Scratch& scratch)
      : logits_(logits),
        params_(params),
        top_(static_cast<double>(maximum.value) / params.temperature),
        scratch_(scratch) {}

  // Shows the survivors to the race.
  void run(Race& race) {
    const bool some = params_.top_k > 0 && static_cast<uint64_t>(params_.top_k) < logits_.size();
    if (!some && params_.top_p >= 1.0) {
      all_but_unlikely(race);
      return;
    }
    if (some) {
      likeliest(static_cast<size_t>(params_.top_k));
      if (params_.top_p < 1.0) nucleus(mass_of_keys());
    } else {
      const double mass = mass_of_row();
      collect_for(mass);
      nucleus(mass);
    }
    for (const uint64_t key : scratch_.keys) {
      const int32_t id = rank_id(key);
      const float logit = logits_[static_cast<size_t>(id)];
      if (logit != kExcluded && weight(logit) >= params_.min_p) race.show(logit, id);
    }
  }

 private:
  // Probability relative to the likeliest token.
  double weight(float logit) const { return exp_row(static_cast<double>(logit) / params_.temperature - top_); }

  void all_but_unlikely(Race& race) const {
    const double min_p = params_.min_p;
    // Far below the limit the weight need not be computed; near it, it decides.
    const double far = min_p > 0 ? log64(min_p) - 1e-6 : kExcluded;
    for (size_t i = 0; i < logits_.size(); ++i) {
      const float logit = logits_[i];
      if (logit == kExcluded) continue;
      if (min_p > 0 && (static_cast<double>(logit) / params_.temperature - top_ < far || weight(logit) < min_p))
        continue;
      race.show(logit, static_cast<int32_t>(i));
    }
  }

  // The first `count` keys in rank order, sorted.
  void likeliest(size_t count) {
    std::vector<uint64_t>& keys = scratch_.keys;
    keys.resize(logits_.size());
    for (size_t i = 0; i < keys.size(); ++i) keys[i] = rank_key(logits_[i], static_cast<uint32_t>(i));
    const auto end = keys.begin() + static_cast<ptrdiff_t>(count);
    std::nth_element(keys.begin(), end - 1, keys.end(), std::greater<>());
    std::sort(keys.begin(), end, std::greater<>());
    keys.resize(count);
  }

  static double fold(double (&lane)[kLanes]) {
    for (size_t width = kLanes / 2; width > 0; width /= 2) {
      for (size_t j = 0; j < width; ++j) lane[j] += lane[j + width];
    }
    return lane[0];
  }

  double mass_of_row() const {
    double lane[kLanes] = {};
    const size_t whole = logits_.size() / kLanes * kLanes;
    for (size_t i = 0; i < whole; i += kLanes) {
      for (size_t j = 0; j < kLanes; ++j) lane[j] += weight(logits_[i + j]);
    }
    for (size_t i = whole; i < logits_.size(); ++i) lane[i - whole] += weight(logits_[i]);
    return fold(lane);
  }

  // The same sum with every token outside scratch_.keys left out (adding its 0 would change nothing).
  double mass_of_keys() {
    std::vector<int32_t>& ids = scratch_.ids;
    ids.clear();
    for (const uint64_t key : scratch_.keys) ids.push_back(rank_id(key));
    std::sort(ids.begin(), ids.end());
    double lane[kLanes] = {};
    for (const int32_t id : ids) lane[static_cast<size_t>(id) % kLanes] += weight(logits_[static_cast<size_t>(id)]);
    return fold(lane);
  }

  // Keys of every token that can be in the nucleus. Tokens below the limit have less than half of the mass that may be
  // left out in all; where that half is not far above the rounding errors of the sums, every token is taken.
  void collect_for(double mass) {
    std::vector<uint64_t>& keys = scratch_.keys;
    keys.clear();
    const double left_out = 1.0 - params_.top_p;
    const double limit = left_out < 1e-6 ? -1.0 : left_out * mass / (2.0 * static_cast<double>(logits_.size()));
    const double lowest = limit < 0 ? kExcluded : log64(limit) - 1e-6;
    for (size_t i = 0; i < logits_.size(); ++i) {
      if (static_cast<double>(logits_[i]) / params_.temperature - top_ >= lowest) {
        keys.push_back(rank_key(logits_[i], static_cast<uint32_t>(i)));
      }
    }
  }

  // Cuts scratch_.keys to the shortest beginning, in rank order, that holds top_p of `mass`. Sorts no further than it
  // must.
  void nucleus(double mass) {
    std::vector<uint64_t>& keys = scratch_.keys;
    const double wanted = params_.top_p * mass;
    double sum = 0;
    size_t done = 0;
    for (size_t part = 512; done < keys.size(); part *= 4) {
      const size_t end = std::min(done + part, keys.size());
      const auto first = keys.begin() + static_cast<ptrdiff_t>(done), last = keys.begin() + static_cast<ptrdiff_t>(end);
      if (last != keys.end()) std::nth_element(first, last, keys.end(), std::greater<>());
      std::sort(first, last, std::greater<>());
      for (; done < end; ++done) {
        if (sum >= wanted) {
          keys.resize(done);
          return;
        }
        sum += weight(logits_[static_cast<size_t>(rank_id(keys[done]))]);
      }
    }
  }

  const std::span<const float> logits_;
  const SamplingParams& params_;
  const double top_;
  Scratch& scratch_;
};

}  // namespace

Result<Sampled> sample_processed(std::span<const float> raw, std::span<const float> processed,
                                 const SamplingParams& params, const NoiseKey& key, Scratch& scratch) {
  DI_CHECK(raw.size() == processed.size());
  DI_ASSIGN_OR_RETURN(const RowMaximum raw_maximum, row_maximum(raw));
  RowMaximum maximum = raw_maximum;
  if (processed.data() != raw.data()) {
    DI_ASSIGN_OR_RETURN(maximum, row_maximum(processed));
  }
  int32_t id = maximum.id;
  if (!params.greedy()) {
    Race race(params.temperature, key);
    race.show(maximum.value, maximum.id);
    Filter(processed, params, maximum, scratch).run(race);
    id = race.winner();
  }
  const double log_sum = log_sum_exp(raw, raw_maximum.value);
  return Sampled{id, logprob_of(raw[static_cast<size_t>(id)], raw_maximum.value, log_sum)};
}

Result<Sampled> sample(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                       Scratch& scratch) {
  return sample_processed(logits, logits, params, key, scratch);
}

}  // namespace deepinfer
