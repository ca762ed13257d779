// Engine: requests in, tokens out. It owns a model, its tokenizer and the state of all running sequences.
//
// Threading: one caller at a time. Determinism: an answer depends on its request, its seed and the model, and on nothing else: not on the
// other requests of a batch, the chunk size or the number of threads. Errors: a refused request names the field; the engine goes on.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "deepinfer/options.h"
#include "deepinfer/request.h"
#include "deepinfer/status.h"
#include "deepinfer/tokenizer.h"

namespace deepinfer {

using RequestId = uint64_t;

enum class FinishReason {
  stop,    // the end token or a stop token
  length,  // max_tokens or the context is full
  cancelled,
  failed,  // Output::error says why; other requests go on
};
// "stop", "length", "cancelled" or "failed".
const char* finish_reason_name(FinishReason reason);

// Tokens, counted.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;    // prompt tokens that were not computed
  int64_t drafted_tokens = 0;   // drafts that were verified
  int64_t accepted_tokens = 0;  // drafts that became part of the answer
};

// Seconds, wall clock.
struct Timing {
  double load_s = 0;     // opening the engine
  double prefill_s = 0;  // from the request's first step to its first token
  double decode_s = 0;   // from there to its last token
};

// Log-probabilities at one place of the answer: log-softmax of the raw logits.
struct TokenLogprobs {
  int32_t token = 0;
  float logprob = 0;
  std::vector<std::pair<int32_t, float>> top;  // as many as SamplingParams::logprobs asks for, likeliest first
};

// A finished answer.
struct Output {
  std::string id;                 // the request's
  std::string text;               // the answer without its reasoning
  std::string reasoning_content;  // what stands before </think>
  FinishReason finish_reason = FinishReason::stop;
  Status error;  // not ok exactly when finish_reason is failed
  std::vector<int32_t> prompt_token_ids;
  std::vector<int32_t> token_ids;       // what was generated, the end token included when it came
  std::vector<TokenLogprobs> logprobs;  // one a token of token_ids
  Usage usage;
  Timing timing;
};

// What one step added to one request.
struct Delta {
  RequestId request = 0;
  std::string reasoning;  // text that became certain
  std::string text;
  bool finished = false;
  Output output;  // whole, when finished
};

// A model that answers.
class Engine {
 public:
  // Opens a model directory and plans all memory of a step. Errors: whatever is wrong with the directory or an option, by name.
  static Result<Engine> open(const ModelOptions& model, const EngineOptions& options);
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();  // ends all requests

  // Takes a request in; its prompt is rendered and encoded now. Errors: what validate() and supported_now() say, a prompt that is longer
  // than the context, ids outside the vocabulary.
  Result<RequestId> add(const Request& request);
  // Computes one step of the running requests; empty when there is nothing to do.
  Result<std::vector<Delta>> step();
  // Ends a request; its delta comes with the next step. not_found if there is no such running request.
  Status cancel(RequestId id);
  // True when no request is waiting or running.
  bool idle() const;

  // All answers, in the order of the requests. The first refused request fails the call before anything is computed.
  Result<std::vector<Output>> generate(const std::vector<Request>& requests,
                                       const std::function<void(const Delta&)>& on_delta = {});

  // Sampling of requests that do not say otherwise: the model's generation_config.json.
  const SamplingParams& default_sampling() const;
  // Null when the model directory has no tokenizer.json (requests must then give token ids).
  const Tokenizer* tokenizer() const;
  // One line: layers, weights, instruction set, threads, memory.
  std::string description() const;

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace deepinfer
