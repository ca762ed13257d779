#include "numerics/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "base/threads.h"

// Every conversion against a definition that shares nothing with it: decoding by ldexp, encoding by "the nearest value, the even code on
// ties" over the list of all values. Golden conversions (another implementation) are part of verify_kernels_test.
namespace deepinfer {
namespace {

double e4m3_by_definition(int code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  if ((code & 127) == 127) return std::nan("");
  const double a = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 128) != 0 ? -a : a;
}

double e2m1_by_definition(int code) {
  const int exponent = code >> 1 & 3, mantissa = code & 1;
  const double a = exponent == 0 ? mantissa * 0.5 : std::ldexp(2 + mantissa, exponent - 2);
  return (code & 8) != 0 ? -a : a;
}

// Places where a rounding can change: between neighbouring values of an ascending list, as float32 of the midpoint (exact here).
std::vector<float> midpoints(double (*value)(int), int last_code) {
  std::vector<float> out;
  for (int c = 0; c < last_code; ++c) out.push_back(static_cast<float>((value(c) + value(c + 1)) / 2));
  return out;
}

// Code of |x| by definition: a midpoint goes to the even code.
int nearest(const std::vector<float>& middles, float a) {
  int code = 0;
  while (code < static_cast<int>(middles.size())) {
    const float m = middles[static_cast<size_t>(code)];
    if (a < m || (a == m && code % 2 == 0)) break;
    ++code;
  }
  return code;
}

bool same_bits(float a, float b) { return float_to_bits(a) == float_to_bits(b); }

// All 65536 upper halves with some lower halves: every exponent, every leading mantissa, at and around the ties of bf16.
template <typename Body>
void for_many_floats(Body body) {
  constexpr uint32_t kLow[] = {0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF, 0x1234, 0xFEDC};
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : kLow) body(bits_to_float(high << 16 | low));
  }
}

TEST(Formats, DecodeAllCodes) {
  for (int c = 0; c < 256; ++c) {
    const double want = e4m3_by_definition(c);
    const float got = e4m3_to_float(static_cast<uint8_t>(c));
    if (std::isnan(want)) {
      EXPECT_TRUE(std::isnan(got)) << c;
    } else {
      EXPECT_TRUE(same_bits(got, static_cast<float>(want))) << c;
    }
    if (c == 255) {
      EXPECT_TRUE(std::isnan(e8m0_to_float(255)));
    } else {
      EXPECT_TRUE(same_bits(e8m0_to_float(static_cast<uint8_t>(c)), static_cast<float>(std::ldexp(1.0, c - 127)))) << c;
    }
  }
  for (int c = 0; c < 16; ++c) {
    EXPECT_TRUE(same_bits(e2m1_to_float(static_cast<uint8_t>(c)), static_cast<float>(e2m1_by_definition(c)))) << c;
  }
}

// Kernels decode with denormals flushed: no value may depend on the mode.
TEST(Formats, DecodeDoesNotDependOnFlushMode) {
  std::vector<uint32_t> plain, flushed;
  const auto decode_all = [](std::vector<uint32_t>& out) {
    for (int c = 0; c < 256; ++c) {
      volatile uint8_t code = static_cast<uint8_t>(c);
      out.push_back(float_to_bits(e4m3_to_float(code)));
      out.push_back(float_to_bits(e8m0_to_float(code)));
      out.push_back(float_to_bits(e2m1_to_float(code)));
    }
  };
  decode_all(plain);
  {
    const KernelFloatMode mode;
    decode_all(flushed);
  }
  EXPECT_EQ(plain, flushed);
}

TEST(Formats, EncodeInvertsDecode) {
  for (int c = 0; c < 256; ++c) {
    if ((c & 127) == 127) continue;
    EXPECT_EQ(to_e4m3(e4m3_to_float(static_cast<uint8_t>(c))), c);
  }
  EXPECT_EQ(to_e4m3(std::nanf("")) & 0x7F, 0x7F);
  for (int c = 0; c < 16; ++c) EXPECT_EQ(to_e2m1(e2m1_to_float(static_cast<uint8_t>(c))), c);
  for (uint32_t b = 0; b < 0x10000; ++b) {
    const bf16 x{static_cast<uint16_t>(b)};
    const bool nan = (b & 0x7FFF) > 0x7F80;
    EXPECT_EQ(to_bf16(to_float(x)).bits, nan ? (b | 0x40) : b);
  }
}

class EncodeModes : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(, EncodeModes, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "FlushingDenormals" : "Plain"); });

TEST_P(EncodeModes, NearestValueEvenOnTies) {
  const std::vector<float> e4m3 = midpoints(e4m3_by_definition, 126), e2m1 = midpoints(e2m1_by_definition, 7);
  std::vector<float> inputs;
  for (const std::vector<float>& list : {e4m3, e2m1}) {
    for (const float m : list) {
      float below = m, above = m;
      for (int i = 0; i < 3; ++i) {
        inputs.insert(inputs.end(), {below, above});
        below = std::nextafterf(below, 0.0f), above = std::nextafterf(above, 1e9f);
      }
    }
  }
  for_many_floats([&](float x) { inputs.push_back(std::fabs(x)); });
  std::vector<int> want4, want2;
  for (const float a : inputs) {
    want4.push_back(nearest(e4m3, a)), want2.push_back(nearest(e2m1, a));
  }
  if (GetParam()) set_kernel_float_mode();
  int wrong = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float a = inputs[i];
    if (a != a) continue;
    wrong += to_e4m3(a) != want4[i] || to_e4m3(-a) != (want4[i] | 0x80);
    wrong += to_e2m1(a) != want2[i] || to_e2m1(-a) != (want2[i] | 8);
  }
  EXPECT_EQ(wrong, 0);
}

// bf16 by definition: of the two neighbours that keep the upper half, the nearer; the even one on ties; up to infinity by the same rule.
bf16 bf16_by_definition(float x) {
  const uint32_t bits = float_to_bits(x);
  const uint16_t down = static_cast<uint16_t>(bits >> 16);
  const uint32_t rest = bits & 0xFFFF;
  const bool up = rest > 0x8000 || (rest == 0x8000 && down % 2 == 1);
  return {static_cast<uint16_t>(down + up)};
}

TEST_P(EncodeModes, Bf16) {
  if (GetParam()) set_kernel_float_mode();
  for_many_floats([](float x) {
    const uint32_t magnitude = float_to_bits(x) & 0x7FFFFFFF;
    if (magnitude > 0x7F800000) {
      ASSERT_GT(to_bf16(x).bits & 0x7FFF, 0x7F80) << float_to_bits(x);
    } else {
      ASSERT_EQ(to_bf16(x).bits, bf16_by_definition(x).bits) << float_to_bits(x);
    }
  });
  EXPECT_EQ(to_bf16(0x1.fep127f).bits, 0x7F7F);
  EXPECT_EQ(to_bf16(0x1.ff8p127f).bits, 0x7F80) << "beyond the largest value: infinity";
  EXPECT_EQ(to_bf16(-0.0f).bits, 0x8000);
}

// The smallest power of two that is not below fl32(amax * inverse).
int pow2_by_definition(float amax, float inverse) {
  const double t = static_cast<double>(amax * inverse);
  int byte = 1;
  while (std::ldexp(1.0, byte - 127) < t) ++byte;
  return byte;
}

TEST(Formats, Pow2ScaleForEveryBf16Maximum) {
  EXPECT_EQ(float_to_bits(kInverse448), float_to_bits(1.0f / 448.0f));
  EXPECT_EQ(float_to_bits(kInverse6), float_to_bits(1.0f / 6.0f));
  EXPECT_EQ(448.0f * kInverse448, 1.0f);
  EXPECT_EQ(6.0f * kInverse6, 1.0f);
  const KernelFloatMode mode;
  for (uint32_t b = 0x0080; b < 0x7F80; ++b) {
    const float amax = to_float(bf16{static_cast<uint16_t>(b)});
    if (amax >= 6 * 0x1p-126f) {
      ASSERT_EQ(pow2_scale_byte(amax, kInverse6), pow2_by_definition(amax, kInverse6)) << b;
    }
    if (amax >= 1e-4f) {
      ASSERT_EQ(pow2_scale_byte(amax, kInverse448), pow2_by_definition(amax, kInverse448)) << b;
    }
  }
  EXPECT_EQ(pow2_scale_byte(1e-4f, kInverse448), 127 - 22);
  EXPECT_EQ(pow2_scale_byte(6 * 0x1p-126f, kInverse6), 1);
  for (int k = -20; k < 20; ++k) {
    EXPECT_EQ(pow2_scale_byte(std::ldexp(448.0f, k), kInverse448), 127 + k);
    EXPECT_EQ(pow2_scale_byte(std::ldexp(6.0f, k), kInverse6), 127 + k);
    EXPECT_EQ(pow2_scale_byte(std::nextafterf(std::ldexp(448.0f, k), 1e30f), kInverse448), 128 + k);
  }
}

// Whatever a block holds, its values over its scale stay on the grid: no code saturates, and the largest uses the top half of the range.
TEST(Formats, ScalesFitTheGrid) {
  for (int i = 0; i < 200000; ++i) {
    const uint64_t word = random_word(1, static_cast<uint64_t>(i));
    const bf16 x{static_cast<uint16_t>(0x3880 + word % (0x7000 - 0x3880))};  // 6e-5 .. 1e29
    const float amax = std::max(to_float(x), 1e-4f);
    const double s448 = std::ldexp(1.0, pow2_scale_byte(amax, kInverse448) - 127);
    ASSERT_LE(static_cast<double>(amax), 448 * s448);
    ASSERT_GT(static_cast<double>(amax), 224 * s448 * (1 - 1e-6));
    const double s6 = std::ldexp(1.0, pow2_scale_byte(amax, kInverse6) - 127);
    ASSERT_LE(static_cast<double>(amax), 6 * s6);
    ASSERT_GT(static_cast<double>(amax), 3 * s6 * (1 - 1e-6));
  }
}

// Every float32 there is (half of them; the other sign by the tests above). About half a minute.
TEST(FormatsFull, EveryFloat) {
  const std::vector<float> e4m3 = midpoints(e4m3_by_definition, 126), e2m1 = midpoints(e2m1_by_definition, 7);
  size_t code4 = 0, code2 = 0;  // codes ascend with the input
  int64_t wrong = 0;
  for (uint32_t bits = 0; bits <= 0x7F800000; ++bits) {
    const float a = bits_to_float(bits);
    while (code4 < e4m3.size() && (a > e4m3[code4] || (a == e4m3[code4] && code4 % 2 == 1))) ++code4;
    while (code2 < e2m1.size() && (a > e2m1[code2] || (a == e2m1[code2] && code2 % 2 == 1))) ++code2;
    wrong += to_e4m3(a) != code4;
    wrong += to_e2m1(a) != code2;
    wrong += to_bf16(a) != bf16_by_definition(a);
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace deepinfer
