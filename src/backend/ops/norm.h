// RMSNorm, with the quantised copy that the next matrix wants.
//
//   y = bf16(w * (x * rsqrt(mean(x^2) + eps))), yq = act_quant(y).     Spec 2.6, 2.2.
// Shapes   x, y, yq [tokens, d] bf16 · weight [d] bf16. yq without data: not wanted. y may be x.
// Rounding float32; rsqrt is 1 / sqrt, both correctly rounded; one rounding to bf16.
// Order    mean: 16 partial sums (lane = index mod 16, ascending), added by halves as in linear.h, then divided by d.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct RmsNormArgs {
  Rows<const bf16> x;
  const bf16* weight = nullptr;
  float eps = 0;
  Rows<bf16> y;
  Rows<bf16> yq;
};

}  // namespace deepinfer
