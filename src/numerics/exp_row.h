// e^x for x <= 0 in float64, inline and without divisions, so that a loop over a row of logits becomes vector code.
//
// Formula   n = x / ln 2 rounded to an integer (ties to even), r = (x - n*hi) - n*lo with hi + lo = ln 2, then Horner's
//           scheme from 1/14! down to 1/0!, times 2^n: additions and multiplications in this order, no fused
//           multiply-add. Below -708: 0.
// Accuracy  within 1.1 * 2^-52 relative (tests/sampling). exp_row(0) is exactly 1. -infinity gives 0.
// Threading pure. Its bits are not exp64's; callers choose one and keep it.
#pragma once

#include <bit>
#include <cstdint>

namespace deepinfer {

inline double exp_row(double x) {
  // clang-format off
  constexpr double kInverseFactorial[15] = {
      1.0, 1.0, 1.0 / 2, 1.0 / 6, 1.0 / 24, 1.0 / 120, 1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880, 1.0 / 3628800,
      1.0 / 39916800, 1.0 / 479001600, 1.0 / 6227020800, 1.0 / 87178291200};
  // clang-format on
  constexpr double kRound = 0x1.8p52;  // adding it leaves the nearest integer in the low bits
  const double shifted = x * 0x1.71547652b82fep0 + kRound;
  const double n = shifted - kRound;
  const double r = (x - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b3ap-40;
  double sum = kInverseFactorial[14];
#pragma GCC unroll 14
  for (int k = 13; k >= 0; --k) sum = sum * r + kInverseFactorial[k];
  const double power = std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023) << 52);
  return x < -708.0 ? 0.0 : sum * power;
}

}  // namespace deepinfer
