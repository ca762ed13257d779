// Log-probabilities of a row: log-softmax in float64 in a fixed order, reported as float32.
//
// Shapes    logits float32 [vocabulary], -infinity allowed. Threading: pure, but for the caller's Scratch.
// Order     sixteen partial sums, token v into sum v mod 16 with ascending v; then 8 + 8, 4 + 4, 2 + 2, 1 + 1.
// Errors    as in sampler.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"

namespace deepinfer {

struct Scratch;

// The largest logit and the lowest id that has it, checked: no NaN, no +infinity, at least one finite value.
struct RowMaximum {
  float value = 0;
  int32_t id = 0;
};
Result<RowMaximum> row_maximum(std::span<const float> logits);

// log of the sum over v of e^(logit_v - maximum); at least 0.
double log_sum_exp(std::span<const float> logits, float maximum);

// (logit - maximum) - log_sum, rounded once.
inline float logprob_of(float logit, float maximum, double log_sum) {
  return static_cast<float>((static_cast<double>(logit) - static_cast<double>(maximum)) - log_sum);
}

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
};

// The `count` likeliest tokens, likeliest first, lower id first among equal logits; fewer if the vocabulary is smaller.
// Tokens at -infinity are left out.
Result<std::vector<TokenLogprob>> top_logprobs(std::span<const float> logits, size_t count, Scratch& scratch);

}  // namespace deepinfer
