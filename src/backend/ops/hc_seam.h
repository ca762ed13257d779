// The seam between two sublayers: write the finished sublayer back into the residual stream, mix, collapse, normalise, quantise.
// Each half can be left out (no data): at the first block there is nothing to write, after the last nothing to enter; where Engram or a
// probe stands between, the two halves run as two calls, with equal results.
//
// leave    X_j = bf16(post_j * y + sum_i comb[i][j] * X_i), i ascending.                        Spec 4.2
// enter    m = (fn . flatten(X)) * rsqrt(mean(X^2) + norm_eps); pre_i = sigmoid(m_i * scale_0 + base_i) + hc_eps;
//          post_i = 2 sigmoid(..); comb by Sinkhorn, `iterations` rounds.                         Spec 4.1
//          h = rmsnorm(bf16(sum_i pre_in_i * X_i), norm_weight), hq = act_quant(h), with the pre mix handed in.   Spec 4.2, 4.3
// collapse only (fn without data): h = rmsnorm(hc_pre(X, pre_in)), for the head. `collapsed`, if given, gets hc_pre before the norm.
// tap      bf16(mean over the four copies of X), after leave (of X as it is, without one).                                    Spec 4.4
//
// Shapes   X [tokens, 4 * d] bf16 in place · y, h, hq [tokens, d] · pre, post [tokens, 4] · comb [tokens, 4 (source), 4 (destination)] float32
//          fn [24, 4 * d] float32, base [24], scale [3].
// Rounding float32 between the bf16 roundings named above; no fused multiply-add.
// Limits   d % 32 == 0.
// Order    sums over i ascending from the first product; fn . X: 16 partial sums, lane = index mod 16, added by halves; mean likewise.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

inline constexpr int64_t kHcMult = 4;
inline constexpr int64_t kHcMixes = (2 + kHcMult) * kHcMult;

struct HcMix {
  float* pre = nullptr;   // [tokens, 4]
  float* post = nullptr;  // [tokens, 4]
  float* comb = nullptr;  // [tokens, 4, 4]
};

struct HcSeamArgs {
  Rows<bf16> x;
  int64_t d = 0;
  // leave
  Rows<const bf16> y;
  HcMix left;  // post and comb of the sublayer that made y
  Rows<bf16> tap;
  // enter
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
  float norm_eps = 0;
  float hc_eps = 0;
  int64_t iterations = 0;
  HcMix entered;      // written
  Rows<float> mixes;  // probes only: m, [tokens, 24]
  // collapse
  const float* pre_in = nullptr;
  const bf16* norm_weight = nullptr;
  Rows<bf16> collapsed;
  Rows<bf16> h;
  Rows<bf16> hq;
};

}  // namespace deepinfer
