// Elementary functions whose results reach a logit. They are ours so that no C library, compiler flag or instruction set changes
// a bit: plain float32 or float64 additions, multiplications and divisions in a stated order, no fused multiply-add, no tables.
//
// Accuracy (measured in math_test.cc): exp32 1 ulp; sigmoid 2.5 ulp; exp64 5e-16 and log64 1e-15 relative; softplus and sincos are correctly
// rounded but for near ties (0.5001 ulp; 3.1e-8 absolute).
#pragma once

#include <cstdint>

#include "numerics/formats.h"

namespace deepinfer {

// e^x in float64. Range: x clamped to [-745, 709].
double exp64(double x);
// Natural logarithm of x > 0 in float64.
double log64(double x);
// log(1 + e^x), identity above 20, as the gate uses it (spec 7).
float softplus(float x);
// base^exponent for base > 0, rounded once to float32 from an extended computation (RoPE frequencies, spec 3).
float pow_rounded(double base, double exponent);
// cos and sin of a float32 angle of any size up to 2^31, rounded to float32.
void sincos(float angle, float& cosine, float& sine);

// e^x in float32; results below 2^-126 are 0, above the range infinity. -infinity gives 0.
float exp32(float x);
// 1 / (1 + e^-x).
DI_INLINE float sigmoid(float x) { return 1.0f / (1.0f + exp32(-x)); }

}  // namespace deepinfer
