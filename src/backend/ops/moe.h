// Mixture of experts: the gate, and routed plus shared experts.
//
// gate     s = sqrt(softplus(x . W)); the top k of s + bias (bias_vl for image tokens), lowest expert on ties; weights are the unbiased s
//          divided by (their sum + 1e-20), times route_scale; written in ascending expert order.                              Spec 7
// experts  g = bf16(w1 x), u = bf16(w3 x); t = silu(min(g, limit)) * clamp(u, +-limit); routed: t = weight * t; y_e = bf16(w2 act_quant(bf16(t)));
//          out = bf16(sum over routed experts in ascending id of y_e, then + y_shared), float32 sums from the first.            Spec 7
// Shapes   x, xq [tokens, d] · logits [tokens, experts] float32 · index, weight [tokens, k] · out [tokens, d] bf16.
// Rounding matrix products as in linear.h; silu(g) = g * sigmoid(g) = g / (1 + exp32(-g)); the sum of the k weights in ascending order of expert.
// Limits   d and the width of the experts % 32 == 0.
// Order    experts ascending per token; never a function of which tokens share an expert.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct MoeGateArgs {
  Rows<const float> logits;
  const float* bias = nullptr;
  const float* bias_vl = nullptr;
  const uint8_t* image = nullptr;  // [tokens], nonzero: an image token; null: none is
  float route_scale = 0;
  Rows<int32_t> index;  // [tokens, k]
  Rows<float> weight;
};

struct ExpertWeights {
  Matrix w1, w2, w3;
};

struct MoeExpertsArgs {
  Rows<const bf16> xq;
  Rows<const int32_t> index;
  Rows<const float> weight;
  const ExpertWeights* experts = nullptr;
  int64_t expert_count = 0;
  const ExpertWeights* shared = nullptr;
  float limit = 0;
  Rows<bf16> out;
  // Probes only: bf16(t) of the selected experts in ascending order, then of the shared one; [tokens, (k + 1) * inter].
  Rows<bf16> hidden;
};

}  // namespace deepinfer
