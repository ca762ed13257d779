#include "sampling/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "numerics/exp_row.h"
#include "sampling/logprobs.h"

namespace deepinfer {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<float> random_row(std::mt19937_64& random, size_t size, double scale) {
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> row(size);
  for (float& x : row) x = static_cast<float>(normal(random));
  return row;
}

// What docs/sampling.md says, token by token: full sort, every weight, every noise.
std::vector<int32_t> brute_survivors(const std::vector<float>& row, const SamplingParams& params) {
  std::vector<int32_t> ranked;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] != -kInfinity) ranked.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(ranked.begin(), ranked.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
  const double top = row[ranked.front()] / params.temperature;
  if (params.top_k > 0 && static_cast<size_t>(params.top_k) < ranked.size()) ranked.resize(params.top_k);
  const auto weight = [&](int32_t id) { return exp_row(row[id] / params.temperature - top); };
  if (params.top_p < 1) {
    double lane[16] = {};
    std::vector<int32_t> by_id = ranked;
    std::sort(by_id.begin(), by_id.end());
    for (const int32_t id : by_id) lane[id % 16] += weight(id);
    for (int width = 8; width > 0; width /= 2) {
      for (int j = 0; j < width; ++j) lane[j] += lane[j + width];
    }
    double sum = 0;
    size_t kept = 0;
    for (; kept < ranked.size() && sum < params.top_p * lane[0]; ++kept) sum += weight(ranked[kept]);
    ranked.resize(kept);
  }
  std::erase_if(ranked, [&](int32_t id) { return weight(id) < params.min_p; });
  std::sort(ranked.begin(), ranked.end());
  return ranked;
}

int32_t brute_choice(const std::vector<float>& row, const SamplingParams& params, const NoiseKey& key) {
  double best = -std::numeric_limits<double>::infinity();
  int32_t chosen = -1;
  for (const int32_t id : brute_survivors(row, params)) {
    const double value = row[id] / params.temperature + gumbel(random_word(row_stream(key), static_cast<uint64_t>(id)));
    if (value > best) best = value, chosen = id;
  }
  return chosen;
}

int32_t choose(const std::vector<float>& row, const SamplingParams& params, const NoiseKey& key) {
  Scratch scratch;
  const auto sampled = sample(row, params, key, scratch);
  EXPECT_TRUE(sampled.ok()) << sampled.status().message();
  return sampled.ok() ? sampled->id : -1;
}

TEST(Sampler, EqualsBruteForceForAllFilters) {
  std::mt19937_64 random(20240601);
  Scratch scratch;  // one for all: what it holds from other rows must not matter
  const double scales[] = {0.0, 0.3, 2.0, 8.0, 1000.0}, temperatures[] = {1e-5, 0.3, 1.0, 1.7, 50.0};
  const double top_ps[] = {1.0, 0.9999999999, 0.95, 0.6, 0.2, 1e-12}, min_ps[] = {0.0, 0.02, 0.3, 1.0};
  const int64_t top_ks[] = {0, -1, 1, 3, 40, 900, 5000};
  const auto pick = [&](auto& list) { return list[random() % std::size(list)]; };
  for (int i = 0; i < 1500; ++i) {
    std::vector<float> row = random_row(random, 1 + random() % (i % 50 == 0 ? 6000 : 300), pick(scales));
    if (random() % 3 == 0) {
      for (float& x : row) x = std::round(x);  // many ties
    }
    if (random() % 3 == 0) {
      for (float& x : row) x = random() % 4 == 0 ? -kInfinity : x;
      row[random() % row.size()] = 0;
    }
    SamplingParams params;
    params.temperature = pick(temperatures), params.top_k = pick(top_ks), params.top_p = pick(top_ps),
    params.min_p = pick(min_ps);
    const NoiseKey key{random() >> 1, static_cast<int32_t>(random() % 128), static_cast<int64_t>(random() % 100000)};
    const auto sampled = sample(row, params, key, scratch);
    ASSERT_TRUE(sampled.ok()) << sampled.status().message();
    ASSERT_EQ(sampled->id, brute_choice(row, params, key))
        << "row " << i << " T " << params.temperature << " top_k " << params.top_k << " top_p " << params.top_p
        << " min_p " << params.min_p;
  }
}

TEST(Sampler, EqualsBruteForceAtTheReleasedVocabulary) {
  std::mt19937_64 random(7);
  Scratch scratch;
  for (const double scale : {0.0, 1.0, 3.0}) {
    const std::vector<float> row = random_row(random, 129280, scale);
    for (int i = 0; i < 8; ++i) {
      SamplingParams params;
      params.temperature = i % 2 == 0 ? 1.0 : 0.6;
      params.top_k = i == 2 || i == 3 ? 50 : 0;
      params.top_p = i == 4 || i == 5 || i == 2 ? 0.95 : i == 6 ? 0.9999999 : 1.0;
      params.min_p = i == 7 ? 0.01 : 0.0;
      const NoiseKey key{static_cast<uint64_t>(i), 0, 1000 + i};
      ASSERT_EQ(sample(row, params, key, scratch)->id, brute_choice(row, params, key)) << scale << " " << i;
    }
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOfEqualLogits) {
  SamplingParams params;
  for (const double temperature : {0.0, 9.99e-6}) {
    params.temperature = temperature;
    EXPECT_EQ(choose({1, 3, 3, 2}, params, {}), 1);
    EXPECT_EQ(choose({-0.0f, 0.0f}, params, {}), 0);
    EXPECT_EQ(choose({0.0f, -0.0f}, params, {}), 0);
    EXPECT_EQ(choose({-kInfinity, -5, -5}, params, {}), 1);
    std::vector<float> row(1000, 1.0f);
    row[17] = row[999] = 2.0f;
    EXPECT_EQ(choose(row, params, {}), 17);
  }
  params.temperature = 1e-5;  // no longer greedy, but a gap of one logit is 100,000 after the division
  EXPECT_EQ(choose({1, 3, 4, 2}, params, {}), 2);
}

TEST(Sampler, FiltersCutTiesByIdAndKeepTheLikeliest) {
  SamplingParams params;
  const std::vector<float> flat(10, 0.0f);
  params.top_k = 3;
  EXPECT_EQ(brute_survivors(flat, params), (std::vector<int32_t>{0, 1, 2}));
  std::vector<bool> seen(10);
  for (int position = 0; position < 200; ++position) seen[choose(flat, params, {1, 0, position})] = true;
  EXPECT_EQ(seen, (std::vector<bool>{true, true, true, false, false, false, false, false, false, false}));
  params = {};
  params.top_p = 0.5;  // five of ten equal tokens hold exactly half
  seen.assign(10, false);
  for (int position = 0; position < 300; ++position) seen[choose(flat, params, {2, 0, position})] = true;
  EXPECT_EQ(seen, (std::vector<bool>{true, true, true, true, true, false, false, false, false, false}));
  params = {};
  params.min_p = 1.0;
  EXPECT_EQ(choose({1, 5, 2, 5.0001f, 4}, params, {3, 0, 0}), 3);
  params = {};
  params.top_p = 1e-300;
  EXPECT_EQ(choose({1, 5, 2, 5.0001f, 4}, params, {3, 0, 0}), 3);
}

TEST(Sampler, BadRowsAreErrorsThatNameTheId) {
  Scratch scratch;
  const auto message = [&](std::vector<float> row) {
    const auto sampled = sample(row, {}, {}, scratch);
    EXPECT_FALSE(sampled.ok());
    return sampled.status().message();
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(message({0, nan, 1}), "logits: NaN at id 1");
  EXPECT_EQ(message({0, 1, -nan}), "logits: NaN at id 2");
  EXPECT_EQ(message({kInfinity, nan}), "logits: NaN at id 1");
  EXPECT_EQ(message({0, 1, 2, kInfinity, kInfinity}), "logits: +infinity at id 3");
  EXPECT_EQ(message({-kInfinity, -kInfinity}), "logits: no token of 2 has a finite logit");
  EXPECT_EQ(message({}), "logits: no token of 0 has a finite logit");
  std::vector<float> row(129280, 0.0f);
  row[129279] = nan;
  EXPECT_EQ(message(row), "logits: NaN at id 129279");
  EXPECT_FALSE(top_logprobs(row, 3, scratch).ok());
  // A bad raw row is found even where the processed one hides it.
  const std::vector<float> raw{0, nan}, processed{0, -kInfinity};
  EXPECT_FALSE(sample_processed(raw, processed, {}, {}, scratch).ok());
}

TEST(Sampler, ExtremeRowsStayInRange) {
  SamplingParams params;
  const float huge = std::numeric_limits<float>::max(), tiny = std::numeric_limits<float>::denorm_min();
  for (const double temperature : {1e-5, 1.0, 100.0}) {
    for (const double top_p : {1.0, 0.9}) {
      params.temperature = temperature, params.top_p = top_p;
      EXPECT_EQ(choose({-huge, 0, huge, -kInfinity}, params, {4, 0, 0}), 2);
      EXPECT_EQ(choose({-kInfinity, -huge, -kInfinity}, params, {4, 0, 0}), 1);
      EXPECT_GE(choose({tiny, 0, -tiny}, params, {4, 0, 0}), 0);
    }
  }
}

TEST(Sampler, ReportsFromTheRawRow) {
  Scratch scratch;
  const std::vector<float> raw{1, 2, 3, 0}, processed{-kInfinity, 9, -kInfinity, -kInfinity};
  SamplingParams params;
  params.temperature = 0.5;
  const auto sampled = sample_processed(raw, processed, params, {}, scratch);
  ASSERT_TRUE(sampled.ok());
  EXPECT_EQ(sampled->id, 1);
  const double expected = 2 - std::log(std::exp(1.0) + std::exp(2.0) + std::exp(3.0) + 1);
  EXPECT_NEAR(sampled->logprob, expected, 2e-7);
}

TEST(Logprobs, EqualLongDoubleLogSoftmax) {
  std::mt19937_64 random(3);
  Scratch scratch;
  for (const double scale : {0.0, 1.0, 20.0, 3000.0}) {
    for (const size_t size : {size_t{1}, size_t{16}, size_t{1000}, size_t{129280}}) {
      const std::vector<float> row = random_row(random, size, scale);
      const long double top = *std::max_element(row.begin(), row.end());
      long double sum = 0;
      for (const float x : row) sum += std::exp(x - top);
      const auto likeliest = top_logprobs(row, 20, scratch);
      ASSERT_TRUE(likeliest.ok());
      EXPECT_EQ(likeliest->size(), std::min<size_t>(20, size));
      for (const TokenLogprob& entry : *likeliest) {
        const auto exact = static_cast<double>(row[entry.id] - top - std::log(sum));
        // One rounding to float32, and room for the float64 sums, whose error is far below that of the rounding.
        EXPECT_NEAR(entry.logprob, exact, std::abs(exact) * 0x1p-24 + 1e-12) << scale << " " << size;
      }
    }
  }
}

TEST(Logprobs, TopIsSortedWithTiesByIdAndLeavesOutExcludedTokens) {
  Scratch scratch;
  std::mt19937_64 random(11);
  for (int i = 0; i < 200; ++i) {
    std::vector<float> row = random_row(random, 1 + random() % 200, 2);
    for (float& x : row) x = random() % 5 == 0 ? -kInfinity : std::round(x);
    row[0] = 0;
    std::vector<int32_t> order;
    for (size_t v = 0; v < row.size(); ++v) {
      if (row[v] != -kInfinity) order.push_back(static_cast<int32_t>(v));
    }
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    order.resize(std::min<size_t>(order.size(), i % 21));
    std::vector<int32_t> got;
    const auto likeliest = top_logprobs(row, i % 21, scratch);
    ASSERT_TRUE(likeliest.ok());
    for (const TokenLogprob& entry : *likeliest) got.push_back(entry.id);
    EXPECT_EQ(got, order);
  }
}

TEST(ExpRow, WithinOneUnitInTheLastPlace) {
  double worst = 0;
  for (double x = -707.9; x <= 0; x += 0.00371) {
    const long double exact = std::exp(static_cast<long double>(x));
    worst = std::max(worst, static_cast<double>(std::abs(exp_row(x) - exact) / exact));
  }
  EXPECT_LT(worst, 1.1 * 0x1p-52);
  EXPECT_EQ(exp_row(0.0), 1.0);
  EXPECT_EQ(exp_row(-0.0), 1.0);
  EXPECT_EQ(exp_row(-708.5), 0.0);
  EXPECT_EQ(exp_row(-1e300), 0.0);
  EXPECT_EQ(exp_row(-std::numeric_limits<double>::infinity()), 0.0);
}

TEST(Noise, BoundIsNeverBelowTheValue) {
  for (uint64_t i = 0; i < 300000; ++i) {
    uint64_t word = random_word(99, i);
    if (i % 3 == 0) word |= ~uint64_t{0} << (i % 64);  // many leading ones: the largest values
    ASSERT_LE(gumbel(word), gumbel_bound(word)) << word;
  }
  EXPECT_LE(gumbel(~uint64_t{0}), gumbel_bound(~uint64_t{0}));
  EXPECT_NEAR(gumbel(~uint64_t{0}), 53 * std::log(2.0), 1e-9);
  EXPECT_NEAR(gumbel(0), -std::log(53 * std::log(2.0)), 1e-12);
}

}  // namespace
}  // namespace deepinfer
