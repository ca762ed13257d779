#include "verify/golden_model.h"

#include <algorithm>

namespace deepinfer {

Result<std::unique_ptr<GoldenModel>> GoldenModel::load(std::shared_ptr<const Checkpoint> checkpoint,
                                                       std::vector<int32_t> token_map, const Limits& limits) {
  std::unique_ptr<GoldenModel> golden(new GoldenModel());
  const ModelConfig& c = checkpoint->config();
  ModelLimits options;
  options.instruction_set = limits.instruction_set;
  options.threads = limits.threads;
  options.max_step_tokens = std::max(limits.step_tokens, c.dspark_block_size);
  options.max_runs = 1;
  options.max_context = std::min(limits.longest + c.dspark_block_size, c.max_position_embeddings);
  options.drafts = c.num_nextn_predict_layers > 0;
  DI_ASSIGN_OR_RETURN(golden->model_, Model::load(std::move(checkpoint), std::move(token_map), options));
  constexpr int64_t kStates = 4;  // alive at the same time, at most
  const StateLayout& layout = golden->layout();
  DI_ASSIGN_OR_RETURN(golden->pool_,
                      PagePool::create(layout.page_bytes(), kStates * (layout.pages_for(options.max_context) + 1)));
  return golden;
}

Status GoldenModel::feed(SequenceState& state, std::span<const int32_t> tokens, const Feed& feed) {
  const auto total = static_cast<int64_t>(tokens.size());
  while (state.length() < total) {
    const int64_t start = state.length();
    int64_t end = std::min(total, start + model_->limits().max_step_tokens);
    if (feed.logits == LogitRows::all && start < feed.decoder_from) end = std::min(end, feed.decoder_from);
    LogitRows rows = feed.logits;
    if (rows == LogitRows::last && end < total) rows = LogitRows::none;
    if (end <= feed.decoder_from) rows = LogitRows::none;
    if (feed.probe != nullptr) feed.probe->start = start;
    const Run run{&state, tokens.subspan(static_cast<size_t>(start), static_cast<size_t>(end - start)), rows,
                  feed.decoder_from};
    DI_ASSIGN_OR_RETURN(const StepResult result, model_->forward({{&run, 1}, feed.probe}));
    const Rows<const float> logits = result.logits;
    if (feed.out_logits != nullptr)
      feed.out_logits->insert(feed.out_logits->end(), logits.data, logits.data + logits.rows * logits.cols);
    const Rows<const bf16> taps = result.main_hidden;
    if (feed.out_main_hidden != nullptr)
      feed.out_main_hidden->insert(feed.out_main_hidden->end(), taps.data, taps.data + taps.rows * taps.cols);
  }
  return {};
}

Status GoldenModel::feed_drafts(SequenceState& state, int64_t first_position, Rows<const bf16> main_hidden) {
  const int64_t step = model_->limits().max_step_tokens;
  for (int64_t from = 0; from < main_hidden.rows; from += step) {
    const Rows<const bf16> part{main_hidden.row(from), std::min(step, main_hidden.rows - from), main_hidden.cols,
                                main_hidden.stride};
    DI_RETURN_IF_ERROR(model_->feed_drafts(state, first_position + from, part));
  }
  return {};
}

}  // namespace deepinfer
