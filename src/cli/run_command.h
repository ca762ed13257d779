// deepinfer run: one answer, streamed.
//
// The question is TEXT (a user message), --prompt RAW (no chat format), --raw-ids 1,2,3, or --messages FILE (a request object, docs/requests.md).
// Errors: exit 2 naming the option, field or file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/globals.h"
#include "deepinfer/request.h"

namespace deepinfer {

// Sampling as given on the command line: only what was given.
struct SamplingFlags {
  std::optional<int64_t> max_tokens, min_tokens, top_k;
  std::optional<double> temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
  std::vector<std::string> logit_bias, stop;
  std::vector<int32_t> stop_token_ids;
  bool ignore_eos = false;
  std::optional<int32_t> logprobs, n;
};

struct RunOptions {
  std::string text;
  std::optional<std::string> prompt, raw_ids, messages;
  bool thinking = false, no_thinking = false;
  std::string effort;
  std::optional<int64_t> thinking_budget;
  SamplingFlags sampling;
  int64_t max_batch = 8, prefill_chunk = 512, max_context = 0;
  int drafts = 0;
};

void add_run_options(CLI::App& command, RunOptions& options);
// `defaults` with what the command line says; an error names the option.
Result<SamplingParams> apply_flags(const SamplingFlags& flags, SamplingParams defaults);
// The request that the options describe.
Result<Request> request_of(const RunOptions& options, const Globals& globals, const SamplingParams& defaults);
int run_run(const RunOptions& options, const Globals& globals);

}  // namespace deepinfer
