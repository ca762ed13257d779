// Is what comes out distributed as it should be? All seeds are fixed, so these tests give one verdict for ever; each
// threshold is the 99.9 % quantile of the chi-square distribution, which a right sampler exceeds once in a thousand
// draws of the seeds.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "sampling/sampler.h"

namespace deepinfer {
namespace {

// Wilson and Hilferty's approximation; within 1 % for the degrees of freedom used here.
double chi_square_limit(double degrees) {
  const double z = 3.0902;  // 99.9 %
  const double term = 1 - 2 / (9 * degrees) + z * std::sqrt(2 / (9 * degrees));
  return degrees * term * term * term;
}

// Pearson's statistic of counts against probabilities; cells that expect fewer than five are pooled.
void expect_distribution(const std::vector<int64_t>& counts, const std::vector<double>& probabilities,
                         const std::string& what) {
  int64_t draws = 0;
  for (const int64_t count : counts) draws += count;
  double statistic = 0, pooled_expected = 0;
  int64_t pooled = 0;
  int cells = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * static_cast<double>(draws);
    if (probabilities[i] == 0) {
      EXPECT_EQ(counts[i], 0) << what << ": token " << i << " was filtered out";
    } else if (expected < 5) {
      pooled_expected += expected, pooled += counts[i];
    } else {
      statistic += (counts[i] - expected) * (counts[i] - expected) / expected;
      ++cells;
    }
  }
  if (pooled_expected >= 5)
    statistic += (pooled - pooled_expected) * (pooled - pooled_expected) / pooled_expected, ++cells;
  ASSERT_GT(cells, 1) << what;
  EXPECT_LT(statistic, chi_square_limit(cells - 1)) << what << ": " << cells << " cells, " << draws << " draws";
}

std::vector<double> softmax(const std::vector<float>& row, double temperature, const std::vector<bool>& kept) {
  std::vector<double> p(row.size());
  double sum = 0;
  for (size_t i = 0; i < row.size(); ++i) sum += p[i] = kept[i] ? std::exp(row[i] / temperature) : 0;
  for (double& x : p) x /= sum;
  return p;
}

std::vector<float> bell(size_t size, double scale) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> row(size);
  for (float& x : row) x = static_cast<float>(normal(random));
  return row;
}

template <typename Key>
std::vector<int64_t> draw(const std::vector<float>& row, const SamplingParams& params, int draws, Key key) {
  std::vector<int64_t> counts(row.size());
  Scratch scratch;
  for (int i = 0; i < draws; ++i) ++counts[static_cast<size_t>(sample(row, params, key(i), scratch)->id)];
  return counts;
}

TEST(Distribution, FollowsTheSoftmaxOverPositionsSeedsAndChoices) {
  for (const double temperature : {1.0, 0.5, 2.0}) {
    const std::vector<float> row = bell(40, 1.5);
    SamplingParams params;
    params.temperature = temperature;
    const std::vector<double> p = softmax(row, temperature, std::vector<bool>(40, true));
    const std::string what = "temperature " + std::to_string(temperature);
    expect_distribution(draw(row, params, 60000, [](int i) { return NoiseKey{17, 0, i}; }), p, what + ", positions");
    expect_distribution(draw(row, params, 60000,
                             [](int i) {
                               return NoiseKey{static_cast<uint64_t>(i), 0, 5};
                             }),
                        p, what + ", seeds");
    expect_distribution(draw(row, params, 60000, [](int i) { return NoiseKey{3, i, 5}; }), p, what + ", choices");
  }
}

TEST(Distribution, FollowsTheSoftmaxOfALargeVocabulary) {
  const std::vector<float> row = bell(2000, 1.0);
  const std::vector<double> p = softmax(row, 1.0, std::vector<bool>(2000, true));
  expect_distribution(draw(row, {}, 40000, [](int i) { return NoiseKey{1, 0, i}; }), p, "2000 tokens");
}

TEST(Distribution, FollowsTheRenormalisedSoftmaxUnderFilters) {
  const std::vector<float> row = bell(30, 1.5);
  std::vector<size_t> ranked(30);
  for (size_t i = 0; i < 30; ++i) ranked[i] = i;
  std::sort(ranked.begin(), ranked.end(), [&](size_t a, size_t b) { return row[a] > row[b]; });
  const std::vector<double> all = softmax(row, 1.0, std::vector<bool>(30, true));
  const auto kept_first = [&](size_t count) {
    std::vector<bool> kept(30);
    for (size_t i = 0; i < count; ++i) kept[ranked[i]] = true;
    return kept;
  };
  SamplingParams params;
  params.top_k = 6;
  expect_distribution(draw(row, params, 40000,
                           [](int i) {
                             return NoiseKey{8, 0, i};
                           }),
                      softmax(row, 1.0, kept_first(6)), "top_k");
  params = {};
  params.top_p = 0.8;
  size_t nucleus = 0;
  for (double sum = 0; sum < 0.8; ++nucleus) sum += all[ranked[nucleus]];
  ASSERT_GT(nucleus, 2u);
  expect_distribution(draw(row, params, 40000,
                           [](int i) {
                             return NoiseKey{9, 0, i};
                           }),
                      softmax(row, 1.0, kept_first(nucleus)), "top_p");
  params = {};
  params.min_p = 0.1;
  size_t likely = 0;
  while (all[ranked[likely]] >= 0.1 * all[ranked[0]]) ++likely;
  ASSERT_GT(likely, 2u);
  expect_distribution(draw(row, params, 40000,
                           [](int i) {
                             return NoiseKey{10, 0, i};
                           }),
                      softmax(row, 1.0, kept_first(likely)), "min_p");
}

// Two draws whose keys differ in one part are independent: the joint counts follow the product.
TEST(Distribution, KeysThatDifferInOnePartAreIndependent) {
  const std::vector<float> row{0.3f, -0.2f, 0.9f, 0.0f, -0.7f};
  const std::vector<double> p = softmax(row, 1.0, std::vector<bool>(5, true));
  std::vector<double> product;
  for (const double a : p) {
    for (const double b : p) product.push_back(a * b);
  }
  const auto joint = [&](auto first, auto second, const char* what) {
    Scratch scratch;
    std::vector<int64_t> counts(25);
    for (int i = 0; i < 50000; ++i) {
      const int32_t a = sample(row, {}, first(i), scratch)->id, b = sample(row, {}, second(i), scratch)->id;
      ++counts[static_cast<size_t>(a * 5 + b)];
    }
    expect_distribution(counts, product, what);
  };
  const auto base = [](int i) { return NoiseKey{21, 0, i}; };
  joint(
      base,
      [](int i) {
        return NoiseKey{21, 0, i + 1};
      },
      "next position");
  joint(
      base,
      [](int i) {
        return NoiseKey{21, 1, i};
      },
      "next choice");
  joint(
      base,
      [](int i) {
        return NoiseKey{22, 0, i};
      },
      "next seed");
  joint(
      base,
      [](int i) {
        return NoiseKey{21 ^ (uint64_t{1} << 62), 0, i};
      },
      "seed with a high bit changed");
  joint(
      [](int i) {
        return NoiseKey{static_cast<uint64_t>(i), 0, 0};
      },
      [](int i) {
        return NoiseKey{0, 0, i + 1};
      },
      "seed against position");
}

TEST(Distribution, NoiseOfNeighbouringIdsIsIndependentAndUniform) {
  std::vector<int64_t> single(64), pairs(64);
  for (int position = 0; position < 2000; ++position) {
    const uint64_t stream = row_stream({4, 0, position});
    for (uint64_t id = 0; id < 100; ++id) {
      const auto a = static_cast<size_t>(uniform(random_word(stream, id)) * 64),
                 b = static_cast<size_t>(uniform(random_word(stream, id + 1)) * 8);
      ++single[a];
      ++pairs[a / 8 * 8 + b];
    }
  }
  const std::vector<double> flat(64, 1.0 / 64);
  expect_distribution(single, flat, "uniform");
  expect_distribution(pairs, flat, "neighbouring ids");
}

}  // namespace
}  // namespace deepinfer
