// Generation: one choice of one request on its way: its sequence state, what was generated, and its text.
//
// Threading: owned by the engine's step loop.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "deepinfer/engine.h"
#include "sampling/logit_processors.h"
#include "sampling/sampler.h"
#include "state/sequence_state.h"

namespace deepinfer {

// What ends an answer of this model, and where its text begins.
struct AnswerRules {
  int32_t eos = 0;
  std::optional<int32_t> end_of_thinking;  // set while the answer begins inside its reasoning
};

class Generation {
 public:
  Generation(RequestId id, const Request& request, uint64_t seed, std::vector<int32_t> prompt, AnswerRules rules,
             const Tokenizer* tokenizer, SequenceState state);

  // The tokens of the next step: the rest of the prompt, at most `budget` of them, or the last token.
  std::span<const int32_t> next_tokens(int64_t budget) const;
  // True if the step with these tokens ends with a row that wants logits.
  bool wants_logits(int64_t tokens) const { return state_.length() + tokens == static_cast<int64_t>(sequence_.size()); }
  bool in_prompt() const { return state_.length() < prompt_tokens_; }

  // Chooses a token from the row and appends its text to `delta`. Sets `finished` when the answer ends.
  Status accept(std::span<const float> logits, int64_t max_context, Delta& delta);
  // Ends the answer; fills delta.output.
  void finish(FinishReason reason, Delta& delta);

  RequestId id() const { return id_; }
  SequenceState& state() { return state_; }
  bool finished() const { return finished_; }
  bool cancelled = false;

 private:
  using Clock = std::chrono::steady_clock;
  Status append_text(int32_t token, bool last, Delta& delta);

  RequestId id_;
  SamplingParams params_;
  uint64_t seed_;
  AnswerRules rules_;
  SequenceState state_;
  std::vector<int32_t> sequence_;  // prompt, then the answer
  int64_t prompt_tokens_;
  std::optional<StreamDecoder> decoder_;
  TokenCounts counts_;
  std::vector<int32_t> stops_;  // ids that end the answer
  Scratch scratch_;
  std::vector<float> processed_;
  Output output_;
  bool finished_ = false;
  Clock::time_point start_, first_token_;
};

}  // namespace deepinfer
