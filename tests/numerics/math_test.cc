#include "numerics/math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "base/threads.h"

// Elementary functions against long double (64 bits of mantissa). The bounds are the measured maxima, rounded up; they are part of the
// contract in numerics/math.h.
namespace deepinfer {
namespace {

// Distance in units of the last place of the float32 nearest to `exact` (of the smallest normal below it).
double ulps(float got, long double exact) {
  const int exponent = std::max(std::ilogb(static_cast<float>(exact)), -126);
  return static_cast<double>(std::fabs((static_cast<long double>(got) - exact) / std::ldexp(1.0L, exponent - 23)));
}

double uniform(uint64_t i, double low, double high) {
  return low + (high - low) * static_cast<double>(random_word(7, i) >> 11) * 0x1p-53;
}

class Math : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) set_kernel_float_mode();
  }
};
INSTANTIATE_TEST_SUITE_P(, Math, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "FlushingDenormals" : "Plain"); });

TEST_P(Math, Exp32) {
  double worst = 0;
  const auto measure = [&](float x) { worst = std::max(worst, ulps(exp32(x), std::exp(static_cast<long double>(x)))); };
  for (uint64_t i = 0; i < 1000000; ++i) measure(static_cast<float>(uniform(i, -87.3, 88.72)));
  for (uint64_t i = 0; i < 200000; ++i) measure(static_cast<float>(uniform(i, -1, 1)));
  for (float x = 1e-30f; x < 1; x *= 1.01f) measure(x), measure(-x);
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 1.0) << "measured 0.961";

  EXPECT_EQ(exp32(0.0f), 1.0f);
  EXPECT_EQ(exp32(-0.0f), 1.0f);
  EXPECT_EQ(exp32(-HUGE_VALF), 0.0f);
  EXPECT_EQ(exp32(HUGE_VALF), HUGE_VALF);
  EXPECT_EQ(exp32(-88.0f), 0.0f) << "below 2^-126";
  EXPECT_EQ(exp32(89.0f), HUGE_VALF);
  EXPECT_EQ(exp32(-1e30f), 0.0f);
  EXPECT_EQ(exp32(1e30f), HUGE_VALF);
  EXPECT_TRUE(std::isnan(exp32(NAN)));
  EXPECT_TRUE(std::isfinite(exp32(88.72283f)));
  EXPECT_GE(exp32(-87.33654f), 0.0f);
}

// Attention needs more than accuracy: a larger score never gets a smaller probability than its neighbour by more than rounding, and
// nothing exceeds 1 for arguments up to 0.
TEST_P(Math, Exp32StaysBelowOneForNegativeArguments) {
  float x = -0x1p-40f;
  while (x > -87.0f) {
    ASSERT_LE(exp32(x), 1.0f) << x;
    x *= 1.0001f;
  }
}

TEST_P(Math, Sigmoid) {
  double worst = 0;
  for (uint64_t i = 0; i < 200000; ++i) {
    const auto x = static_cast<float>(uniform(i, -30, 30));
    worst = std::max(worst, ulps(sigmoid(x), 1 / (1 + std::exp(-static_cast<long double>(x)))));
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 2.5) << "measured 2.409: exp32, the sum and the division";
  EXPECT_EQ(sigmoid(-200.0f), 0.0f);
  EXPECT_EQ(sigmoid(200.0f), 1.0f);
  EXPECT_EQ(sigmoid(0.0f), 0.5f);
}

TEST_P(Math, Exp64AndLog64) {
  double worst_exp = 0, worst_log = 0;
  for (uint64_t i = 0; i < 300000; ++i) {
    const double x = uniform(i, -700, 700);
    const long double exact = std::exp(static_cast<long double>(x));
    worst_exp =
        std::max(worst_exp, static_cast<double>(std::fabs((static_cast<long double>(exp64(x)) - exact) / exact)));
    const double y = i % 2 == 0 ? std::exp(uniform(i, -600, 600)) : uniform(i, 0.5, 2);
    const long double log_y = std::log(static_cast<long double>(y));
    const long double scale = std::max(std::fabs(log_y), 1e-3L);  // near 1 the result is near 0: absolute there
    worst_log =
        std::max(worst_log, static_cast<double>(std::fabs((static_cast<long double>(log64(y)) - log_y) / scale)));
  }
  RecordProperty("worst_exp", std::to_string(worst_exp * 1e16));
  RecordProperty("worst_log", std::to_string(worst_log * 1e16));
  EXPECT_LT(worst_exp, 5e-16) << "measured 1.8e-16";
  EXPECT_LT(worst_log, 1e-15) << "measured 4e-16";
  EXPECT_EQ(exp64(0), 1);
  EXPECT_EQ(log64(1), 0);
}

TEST_P(Math, Softplus) {
  double worst = 0;
  for (uint64_t i = 0; i < 300000; ++i) {
    const auto x = static_cast<float>(i % 4 == 0 ? uniform(i, -80, -8) : uniform(i, -12, 20));
    const long double e = std::exp(static_cast<long double>(x));
    worst = std::max(worst, ulps(softplus(x), std::log1p(e)));
  }
  RecordProperty("worst_ulps", std::to_string(worst));
  EXPECT_LT(worst, 0.5001) << "measured 0.500006: float64 inside: correctly rounded but for ties";
  EXPECT_EQ(softplus(25.0f), 25.0f);
  EXPECT_EQ(softplus(std::nextafterf(20.0f, 30.0f)), std::nextafterf(20.0f, 30.0f));
  EXPECT_GE(softplus(-200.0f), 0.0f);
}

TEST_P(Math, SinCos) {
  // Angles of a context of a million positions at the highest frequency (1 radian a position), and far beyond.
  const auto worst_up_to = [](double largest) {
    double worst = 0;
    for (uint64_t i = 0; i < 200000; ++i) {
      const auto angle = static_cast<float>(uniform(i, 0, largest));
      float c = 0, s = 0;
      sincos(angle, c, s);
      worst = std::max(worst, static_cast<double>(
                                  std::fabs(static_cast<long double>(c) - std::cos(static_cast<long double>(angle)))));
      worst = std::max(worst, static_cast<double>(
                                  std::fabs(static_cast<long double>(s) - std::sin(static_cast<long double>(angle)))));
    }
    return worst;
  };
  for (const double largest : {1.0, 7.0, 1e3, 0x1p20, 0x1p24, 0x1p31}) {
    const double worst = worst_up_to(largest);
    RecordProperty("worst_up_to_" + std::to_string(static_cast<int64_t>(largest)), std::to_string(worst * 1e9));
    EXPECT_LT(worst, 3.1e-8) << "angles up to " << largest << ": half a unit in the last place below 1";
  }
  float c = 0, s = 0;
  sincos(0.0f, c, s);
  EXPECT_EQ(c, 1.0f);
  EXPECT_EQ(s, 0.0f);
  sincos(-1.0f, c, s);
  EXPECT_NEAR(s, -0.84147098, 1e-7);
}

TEST(MathPow, RoundedOnce) {
  int wrong = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const double base = i % 3 == 0 ? 10000.0 : i % 3 == 1 ? 160000.0 : uniform(i, 2, 1e6);
    const double exponent = uniform(i + 100000, 0, 1);
    wrong += pow_rounded(base, exponent) !=
             static_cast<float>(std::pow(static_cast<long double>(base), static_cast<long double>(exponent)));
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pow_rounded(10000.0, 0.0), 1.0f);
  EXPECT_EQ(pow_rounded(10000.0, 0.5), 100.0f);
}

}  // namespace
}  // namespace deepinfer
