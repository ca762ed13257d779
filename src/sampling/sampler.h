// Sampler: one row of logits -> one token id and its log-probability. The exact function is docs/sampling.md; every
// step there is a pure function of (row, parameters, key), in plain float64 arithmetic of a fixed order, so machines
// agree to the bit.
//
// Shapes    logits float32 [vocabulary]; -infinity excludes a token.
// Ownership Scratch keeps buffers between calls; one per thread. It holds nothing that a result depends on.
// Errors    internal, naming the id: a NaN or +infinity; a row without a finite logit (nothing can be chosen).
// Cost      one pass for the maximum, one exp per token for the log-probability; noise is computed only for the few
//           tokens that can still win.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "deepinfer/sampling_params.h"
#include "sampling/noise.h"

namespace deepinfer {

struct Sampled {
  int32_t id = -1;
  float logprob = 0;  // log-softmax of the raw logits: before temperature, penalties, bias and masks
};

// Buffers of sample() and top_logprobs().
struct Scratch {
  std::vector<uint64_t> keys;  // candidates; larger = likelier, lower id first among equals
  std::vector<int32_t> ids;
};

// The token chosen from `logits`.
Result<Sampled> sample(std::span<const float> logits, const SamplingParams& params, const NoiseKey& key,
                       Scratch& scratch);

// The same where penalties, biases or masks made `processed` from `raw`: chooses from `processed`, reports from `raw`.
Result<Sampled> sample_processed(std::span<const float> raw, std::span<const float> processed,
                                 const SamplingParams& params, const NoiseKey& key, Scratch& scratch);

}  // namespace deepinfer
