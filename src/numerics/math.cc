#include "numerics/math.h"

#include <bit>

namespace deepinfer {
namespace {

constexpr double kLn2Hi = 0x1.62e42fefa0000p-1;  // low bits zero: n * kLn2Hi is exact for |n| < 2^16
constexpr double kLn2Lo = 0x1.cf79abc9e3b3ap-40;

double pow2(int n) {  // 2^n for normal results, 0 or infinity outside
  if (n < -1022) return 0.0;
  if (n > 1023) return __builtin_huge_val();
  return std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

double round_even(double x) {  // to an integer, |x| < 2^51
  const double magic = 0x1.8p52;
  return (x + magic) - magic;
}

// Natural logarithm and exponential in __float128 (software, the same everywhere), for tables made once at start-up.
__float128 log128(double x) {
  int exponent = 0;
  double m = x;
  while (m >= 1.5) m *= 0.5, ++exponent;
  while (m < 0.75) m *= 2.0, --exponent;
  const __float128 t = (static_cast<__float128>(m) - 1) / (static_cast<__float128>(m) + 1);
  const __float128 t2 = t * t;
  __float128 power = t, sum = 0;
  for (int k = 1; k < 60; k += 2) sum += power / k, power *= t2;
  const __float128 ln2 = static_cast<__float128>(0x1.62e42fefa39efp-1) +
                         static_cast<__float128>(0x1.abc9e3b39803fp-56) +
                         static_cast<__float128>(0x1.7b57a079a1934p-111);
  return 2 * sum + exponent * ln2;
}

__float128 exp128(__float128 x) {
  const __float128 ln2 = static_cast<__float128>(0x1.62e42fefa39efp-1) +
                         static_cast<__float128>(0x1.abc9e3b39803fp-56) +
                         static_cast<__float128>(0x1.7b57a079a1934p-111);
  const int n = static_cast<int>(round_even(static_cast<double>(x / ln2)));
  const __float128 r = x - n * ln2;
  __float128 term = 1, sum = 1;
  for (int k = 1; k < 40; ++k) term = term * r / k, sum += term;
  for (int i = 0; i < (n < 0 ? -n : n); ++i) sum = n < 0 ? sum / 2 : sum * 2;
  return sum;
}

}  // namespace

double exp64(double x) {
  if (x < -745.0) return 0.0;
  if (x > 709.0) x = 709.0;
  const double n = round_even(x * 0x1.71547652b82fep0);
  const double r = (x - n * kLn2Hi) - n * kLn2Lo;
  // Taylor on |r| <= 0.347: the 15th term is below 1e-19.
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + sum * (r / k);
  return sum * pow2(static_cast<int>(n));
}

double log64(double x) {
  uint64_t bits = std::bit_cast<uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFFull) | 0x3FF0000000000000ull;
  double m = std::bit_cast<double>(bits);  // [1, 2)
  if (m > 1.4142135623730951) m *= 0.5, ++exponent;
  const double t = (m - 1.0) / (m + 1.0);
  const double t2 = t * t;
  double sum = 0.0;  // 2 * atanh(t), |t| <= 0.172: the term t^23 is below 1e-18
  for (int k = 23; k >= 1; k -= 2) sum = 1.0 / k + sum * t2;
  return 2.0 * t * sum + (exponent * kLn2Lo + exponent * kLn2Hi);
}

float softplus(float x) {
  if (x > 20.0f) return x;
  const double e = exp64(static_cast<double>(x));
  if (e < 1e-5) return static_cast<float>(e * (1.0 - e * (0.5 - e / 3.0)));  // log(1 + e) by its series
  return static_cast<float>(log64(1.0 + e));
}

float pow_rounded(double base, double exponent) {
  return static_cast<float>(exp128(log128(base) * static_cast<__float128>(exponent)));
}

void sincos(float angle, float& cosine, float& sine) {
  const double x = static_cast<double>(angle);
  // Cody-Waite: pi/2 in four parts; the first three have 22 significant bits, so n * part is exact for |n| < 2^31.
  const double n = round_even(x * 0x1.45f306dc9c883p-1);
  double r = x - n * 0x1.921fb00000000p+0;
  r -= n * 0x1.5110b00000000p-22;
  r -= n * 0x1.1846980000000p-44;
  r -= n * 0x1.3198a2e037073p-69;
  const double r2 = r * r;
  double s = 0.0, c = 0.0;  // Taylor on |r| <= pi/4; the first dropped terms are below 1e-17
  for (int k = 17; k >= 3; k -= 2) s = (1.0 + s) * (-r2 / (k * (k - 1)));
  for (int k = 16; k >= 2; k -= 2) c = (1.0 + c) * (-r2 / (k * (k - 1)));
  s = r + r * s;
  c = 1.0 + c;
  const int64_t quadrant = static_cast<int64_t>(n) & 3;
  const double cos_value = quadrant == 0 ? c : quadrant == 1 ? -s : quadrant == 2 ? -c : s;
  const double sin_value = quadrant == 0 ? s : quadrant == 1 ? c : quadrant == 2 ? -s : -c;
  cosine = static_cast<float>(cos_value);
  sine = static_cast<float>(sin_value);
}

float exp32(float x) {
  if (!(x > -87.33654f)) return x != x ? x : 0.0f;
  if (x > 88.72283f) return __builtin_huge_valf();
  const float n = (x * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f;
  const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;  // ln 2 = hi (15 bits) + lo
  // (e^r - 1 - r) / r^2, minimax on |r| <= ln(2) / 2: e^r is off by 4e-9 (the Taylor polynomial of this degree: 1.7e-7).
  float p = 0x1.6a23dp-10f;
  p = p * r + 0x1.123a2p-7f;
  p = p * r + 0x1.5558f2p-5f;
  p = p * r + 0x1.555492p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = (r * r) * p + r;
  p = 1.0f + p;
  // 2^n in two exact steps, so that n = 128 does not overflow on the way.
  const int k = static_cast<int>(n);
  const int half = k / 2;
  const float a = bits_to_float(static_cast<uint32_t>(half + 127) << 23);
  const float b = bits_to_float(static_cast<uint32_t>(k - half + 127) << 23);
  return (p * a) * b;
}

}  // namespace deepinfer
