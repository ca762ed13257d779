#include "engine/generation.h"

#include <algorithm>

#include "sampling/logprobs.h"

namespace deepinfer {

Generation::Generation(RequestId id, const Request& request, uint64_t seed, std::vector<int32_t> prompt,
                       AnswerRules rules, const Tokenizer* tokenizer, SequenceState state)
    : id_(id),
      params_(request.sampling),
      seed_(seed),
      rules_(rules),
      state_(std::move(state)),
      sequence_(std::move(prompt)),
      prompt_tokens_(static_cast<int64_t>(sequence_.size())),
      start_(Clock::now()) {
  if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  counts_.add_prompt(sequence_);
  stops_ = params_.stop_token_ids;
  if (!params_.ignore_eos) stops_.push_back(rules_.eos);
  output_.id = request.id;
  output_.prompt_token_ids = sequence_;
}

std::span<const int32_t> Generation::next_tokens(int64_t budget) const {
  const std::span<const int32_t> rest = std::span(sequence_).subspan(static_cast<size_t>(state_.length()));
  return rest.first(static_cast<size_t>(std::min<int64_t>(budget, static_cast<int64_t>(rest.size()))));
}

Status Generation::append_text(int32_t token, bool last, Delta& delta) {
  if (!decoder_.has_value()) return {};
  std::string text;
  const bool thinking = rules_.end_of_thinking.has_value();
  if (thinking && token == *rules_.end_of_thinking) {
    text = decoder_->finish();
    rules_.end_of_thinking.reset();
  } else if (token != rules_.eos) {
    DI_ASSIGN_OR_RETURN(text, decoder_->push(token));
  }
  if (last) text += decoder_->finish();
  (thinking ? delta.reasoning : delta.text) += text;
  (thinking ? output_.reasoning_content : output_.text) += text;
  return {};
}

Status Generation::accept(std::span<const float> logits, int64_t max_context, Delta& delta) {
  const int64_t generated = static_cast<int64_t>(sequence_.size()) - prompt_tokens_;
  const NoiseKey key{seed_, 0, static_cast<int64_t>(sequence_.size())};
  const bool too_early = generated < params_.min_tokens;
  Sampled sampled;
  if (changes_logits(params_) || (too_early && !stops_.empty())) {
    DI_RETURN_IF_ERROR(process_logits(logits, params_, counts_,
                                      too_early ? std::span<const int32_t>(stops_) : std::span<const int32_t>(),
                                      processed_));
    DI_ASSIGN_OR_RETURN(sampled, sample_processed(logits, processed_, params_, key, scratch_));
  } else {
    DI_ASSIGN_OR_RETURN(sampled, sample(logits, params_, key, scratch_));
  }
  if (generated == 0) first_token_ = Clock::now();
  sequence_.push_back(sampled.id);
  counts_.add(sampled.id);
  TokenLogprobs logprobs{sampled.id, sampled.logprob, {}};
  if (params_.logprobs.value_or(0) > 0) {
    DI_ASSIGN_OR_RETURN(const std::vector<TokenLogprob> top,
                        top_logprobs(logits, static_cast<size_t>(*params_.logprobs), scratch_));
    for (const TokenLogprob& t : top) logprobs.top.emplace_back(t.id, t.logprob);
  }
  output_.token_ids.push_back(sampled.id);
  output_.logprobs.push_back(std::move(logprobs));

  const bool stop = std::find(stops_.begin(), stops_.end(), sampled.id) != stops_.end();
  const bool full =
      generated + 1 >= params_.max_tokens.value_or(max_context) || static_cast<int64_t>(sequence_.size()) > max_context;
  DI_RETURN_IF_ERROR(append_text(sampled.id, stop || full, delta));
  if (stop || full) finish(stop ? FinishReason::stop : FinishReason::length, delta);
  return {};
}

void Generation::finish(FinishReason reason, Delta& delta) {
  const auto seconds = [](Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  };
  finished_ = true;
  output_.finish_reason = reason;
  output_.usage.prompt_tokens = prompt_tokens_;
  output_.usage.completion_tokens = static_cast<int64_t>(output_.token_ids.size());
  if (!output_.token_ids.empty()) {
    output_.timing.prefill_s = seconds(start_, first_token_);
    output_.timing.decode_s = seconds(first_token_, Clock::now());
  }
  delta.finished = true;
  delta.output = std::move(output_);
}

}  // namespace deepinfer
