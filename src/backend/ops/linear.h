// Matrix product with a stored weight: out[t, n] = sum_k x[t, k] * w[n, k].
//
// Shapes   x [tokens, k] bf16 · w [n, k] in any WeightKind · out [tokens, n], bf16 or float32.
//          For fp8 / fp4 weights that the model quantises activations for (spec 2.5), x already lies on the E4M3 x 2^e grid (quantize.h);
//          for `wo_a` and bf16 weights it does not: the op is the same.
// Rounding w is dequantised exactly (value x 2^e fits bf16); each product of two bf16 is exact in float32; sums in float32; out is
//          rounded once to bf16, or kept. A denormal product or sum flushes to zero.
// Order    16 partial sums; for each chunk of 32 inputs, lane l adds x[2l+1] * w[2l+1], then x[2l] * w[2l] (the order of the dot
//          instruction vdpbf16ps); chunks ascending; the last chunk is padded with zeros. Then the lanes are added by halves: l + (l + 8),
//          l + (l + 4), l + (l + 2), l + (l + 1). A function of k alone. Families: portable = avx2 = avx512, bit for bit.
// Limits   fp8_tile, fp4_row: k % 32 == 0. A scale byte of 0 (2^-127, a denormal) counts as zero. Scales are not NaN (the checkpoint reader's promise); NaN codes give NaN.
// Source   spec 2.5, 4.4, 5, 6, 7, 9.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct LinearArgs {
  Rows<const bf16> x;
  Matrix w;
  Rows<bf16> out;       // either this
  Rows<float> out_f32;  // or this has data
};

// `groups` products side by side: group g multiplies columns [g * k, (g + 1) * k) of x with rows [g * n, (g + 1) * n) of w into columns
// [g * n, (g + 1) * n) of out (wo_a, spec 5.5). w.n counts all groups' rows. For fp8_tile, n % 32 == 0 when groups > 1.
struct GroupedLinearArgs {
  Rows<const bf16> x;
  Matrix w;
  int64_t groups = 1;
  Rows<bf16> out;
};

}  // namespace deepinfer
