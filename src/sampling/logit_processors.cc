#include "sampling/logit_processors.h"

#include <limits>

namespace deepinfer {
namespace {

Status check_id(const char* what, int32_t id, size_t vocabulary) {
  if (id >= 0 && static_cast<size_t>(id) < vocabulary) return {};
  return invalid("{}: id {} is not below the vocabulary size {}", what, id, vocabulary);
}

}  // namespace

void TokenCounts::add_prompt(std::span<const int32_t> ids) {
  for (const int32_t id : ids) counts_[id].in_prompt = true;
}

void TokenCounts::remove(int32_t id) {
  const auto found = counts_.find(id);
  DI_CHECK(found != counts_.end() && found->second.in_answer > 0);
  --found->second.in_answer;
}

bool changes_logits(const SamplingParams& params) {
  return params.presence_penalty != 0 || params.frequency_penalty != 0 || params.repetition_penalty != 1 ||
         !params.logit_bias.empty();
}

Status process_logits(std::span<const float> raw, const SamplingParams& params, const TokenCounts& counts,
                      std::span<const int32_t> excluded, std::vector<float>& out) {
  out.assign(raw.begin(), raw.end());
  const auto repetition = static_cast<float>(params.repetition_penalty);
  const auto frequency = static_cast<float>(params.frequency_penalty);
  const auto presence = static_cast<float>(params.presence_penalty);
  if (repetition != 1.0f || frequency != 0.0f || presence != 0.0f) {
    for (const auto& [id, count] : counts.counts()) {
      DI_RETURN_IF_ERROR(check_id("penalties", id, out.size()));
      float& logit = out[static_cast<size_t>(id)];
      if (count.in_prompt || count.in_answer > 0) logit = logit > 0 ? logit / repetition : logit * repetition;
      logit -= frequency * static_cast<float>(count.in_answer);
      if (count.in_answer > 0) logit -= presence;
    }
  }
  for (const auto& [id, bias] : params.logit_bias) {
    DI_RETURN_IF_ERROR(check_id("logit_bias", id, out.size()));
    out[static_cast<size_t>(id)] += static_cast<float>(bias);
  }
  for (const int32_t id : excluded) {
    DI_RETURN_IF_ERROR(check_id("stop_token_ids", id, out.size()));
    out[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
  return {};
}

}  // namespace deepinfer
