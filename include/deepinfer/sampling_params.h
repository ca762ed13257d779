// SamplingParams: how the tokens of an answer are chosen and when the answer ends. One field for every sampling option
// of `deepinfer run`, under the option's underscore name; docs/sampling.md has the exact function.
//
// Threading: a plain value. Errors: validate() names the field, what was found and what is accepted; limits that depend
// on the model (an id below the vocabulary size, a context that is long enough) are checked by the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "deepinfer/status.h"

namespace deepinfer {

// Temperatures below this choose the largest logit.
inline constexpr double kGreedyTemperature = 1e-5;

struct SamplingParams {
  // Length.
  std::optional<int64_t> max_tokens;  // at least 1; absent: until the context is full
  int64_t min_tokens = 0;             // no stop token may be chosen before this many tokens

  // Distribution: logits / temperature, then top_k, top_p, min_p in this order.
  double temperature = 1.0;  // [0, 100]; below kGreedyTemperature: the largest logit, lowest id on ties
  int64_t top_k = 0;         // keep this many tokens; 0 or -1: all
  double top_p = 1.0;        // (0, 1]; keep the smallest set of likeliest tokens with this share; 1: all
  double min_p = 0.0;        // [0, 1]; keep tokens at least this likely relative to the likeliest; 0: all

  // Changes of the logits, before the above.
  double presence_penalty = 0.0;   // [-2, 2]; subtracted once from tokens that the answer holds
  double frequency_penalty = 0.0;  // [-2, 2]; subtracted for every time that the answer holds them
  double repetition_penalty =
      1.0;  // (0, 10]; divides positive and multiplies negative logits of tokens in prompt or answer
  std::vector<std::pair<int32_t, double>> logit_bias;  // (id, added value in [-100, 100]), ids distinct

  // End.
  std::vector<std::string> stop;        // at most 16, none empty; the answer ends before the first of them
  std::vector<int32_t> stop_token_ids;  // besides the model's end token; kept as the last of the answer's token ids
  bool ignore_eos = false;              // the model's end token does not end the answer

  // Random numbers: one seed, one transcript. Absent: the seed of the run (request i of a batch: that seed + i).
  std::optional<uint64_t> seed;  // below 2^63
  int32_t n = 1;                 // answers to one prompt, 1..128; answer i draws with choice index i

  // Report. Absent: no log-probabilities; N: those of the chosen token and of the N likeliest, 0..20.
  std::optional<int32_t> logprobs;

  bool greedy() const { return temperature < kGreedyTemperature; }

  // ok, or invalid_argument with the first field that is out of range.
  Status validate() const;
};

}  // namespace deepinfer
