// What changes logits before a token is sampled: penalties, biases, excluded tokens. docs/sampling.md, step 1.
//
// Formula   for every token that occurred: l > 0 ? l / repetition : l * repetition (prompt and answer); then, of the
//           answer alone, l - frequency * count, and l - presence. Then l + bias. Then -infinity for excluded tokens.
//           Float32, each operation rounded, in this order.
// Shapes    logits float32 [vocabulary]. Threading: pure; a TokenCounts belongs to one sequence.
// Errors    invalid_argument for an id that is not below the vocabulary size.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "deepinfer/sampling_params.h"

namespace deepinfer {

// How often each token occurred in one sequence.
class TokenCounts {
 public:
  struct Count {
    bool in_prompt = false;
    int32_t in_answer = 0;
  };

  void add_prompt(std::span<const int32_t> ids);
  void add(int32_t id) { ++counts_[id].in_answer; }
  // Takes back one add() of this id (rejected drafts).
  void remove(int32_t id);
  const std::unordered_map<int32_t, Count>& counts() const { return counts_; }

 private:
  std::unordered_map<int32_t, Count> counts_;
};

// False if process_logits would copy the row and change nothing, whatever the counts.
bool changes_logits(const SamplingParams& params);

// `out` = the row after penalties, biases and exclusions. `excluded`: ids that must not be chosen now (stop tokens
// before min_tokens).
Status process_logits(std::span<const float> raw, const SamplingParams& params, const TokenCounts& counts,
                      std::span<const int32_t> excluded, std::vector<float>& out);

}  // namespace deepinfer
