#include "model/model.h"

#include <algorithm>
#include <cmath>

#include "base/planted.h"
#include "model/forward.h"
#include "numerics/math.h"

namespace deepinfer {
namespace {

constexpr int kMaxThreads = 4096;
constexpr int64_t kMaxStep =
    int64_t{1} << 20;  // tokens, runs and logit rows of a step: sizes derived from them stay far from 2^63

}  // namespace

std::vector<float> rope_frequencies(double theta, int64_t dim, const RopeScaling* scaling) {
  const int64_t half = dim / 2;
  std::vector<float> frequencies(static_cast<size_t>(half));
  double low = 0, high = 0;
  if (scaling != nullptr) {
    const auto correction = [&](double rotations) {
      return static_cast<double>(dim) *
             std::log(static_cast<double>(scaling->original_max_position_embeddings) / (rotations * 2 * M_PI)) /
             (2 * std::log(theta));
    };
    low = std::max(std::floor(correction(scaling->beta_fast)), 0.0);
    high = std::min(std::ceil(correction(scaling->beta_slow)), static_cast<double>(dim - 1));
  }
  for (int64_t j = 0; j < half; ++j) {
    // Two roundings, as the reference: the power to float32, then its reciprocal. The exponent is a float32 quotient.
    const float exponent = static_cast<float>(2 * j) / static_cast<float>(dim);
    float f = 1.0f / pow_rounded(theta, static_cast<double>(exponent));
    if (scaling != nullptr) {
      const float ramp_raw =
          (static_cast<float>(j) - static_cast<float>(low)) / static_cast<float>(std::max(high - low, 1e-3));
      const float ramp = std::clamp(ramp_raw, 0.0f, 1.0f);
      const float smooth = 1.0f - ramp;
      f = f / static_cast<float>(scaling->factor) * (1.0f - smooth) + f * smooth;
    }
    frequencies[static_cast<size_t>(j)] = f;
  }
  return frequencies;
}

Model::~Model() = default;

Result<std::unique_ptr<Model>> Model::load(std::shared_ptr<const Checkpoint> checkpoint, std::vector<int32_t> token_map,
                                           const ModelLimits& options) {
  std::unique_ptr<Model> model(new Model());
  const ModelConfig& c = checkpoint->config();
  ModelLimits& o = model->limits_;
  o = options;
  if (o.threads <= 0) o.threads = machine_threads();
  if (o.threads > kMaxThreads)
    return invalid("threads: {}, accepted are 0 (one per core) to {}", o.threads, kMaxThreads);
  if (o.max_step_tokens < 1 || o.max_step_tokens > kMaxStep)
    return invalid("max_step_tokens: {}, accepted are 1 to {}", o.max_step_tokens, kMaxStep);
  if (o.max_logit_rows > kMaxStep || o.max_runs > kMaxStep)
    return invalid("max_logit_rows: {}, max_runs: {}, accepted are up to {}", o.max_logit_rows, o.max_runs, kMaxStep);
  if (o.max_context == 0) o.max_context = c.max_position_embeddings;
  if (o.max_context < 1 || o.max_context > c.max_position_embeddings) {
    return invalid("max_context: {}, accepted are 1 to {} (max_position_embeddings)", o.max_context,
                   c.max_position_embeddings);
  }
  if (o.max_logit_rows <= 0) o.max_logit_rows = o.max_step_tokens;
  if (o.max_runs <= 0) o.max_runs = o.max_step_tokens;
  if (!c.engram_layer_ids.empty()) {
    if (static_cast<int64_t>(token_map.size()) != c.vocab_size) {
      return invalid("token map: {} classes, the vocabulary has {} ids", token_map.size(), c.vocab_size);
    }
    for (const int32_t cls : token_map) {
      if (cls < 0 || cls >= c.engram_compressed_vocab_size) {
        return invalid("token map: class {}, accepted are 0 to {}", cls, c.engram_compressed_vocab_size - 1);
      }
    }
  } else {
    token_map.assign(static_cast<size_t>(c.vocab_size), 0);  // no layer reads it
  }
  if (o.instruction_set.empty()) {
    model->kernels_ = cpu_kernels().front();
  } else {
    DI_ASSIGN_OR_RETURN(model->kernels_, cpu_kernels_named(o.instruction_set));
  }
  model->token_map_ = std::move(token_map);
  DI_ASSIGN_OR_RETURN(model->weights_, ModelWeights::bind(*checkpoint));
  if (!checkpoint->scales_checked()) {
    // Experts and Engram rows are looked at when first used; everything else now.
    for (const auto& [name, tensor] : checkpoint->tensors()) {
      const bool later =
          name.find(".experts.") != std::string::npos || name.find(".engram.embed.") != std::string::npos;
      if (tensor.dtype == DType::f8_e8m0 && !later) DI_RETURN_IF_ERROR(checkpoint->check_scale(tensor));
    }
    model->experts_checked_.resize(static_cast<size_t>(c.num_hidden_layers + c.num_nextn_predict_layers));
  }
  model->layout_ = StateLayout::make(c, o.drafts);
  model->pool_ = std::make_unique<ThreadPool>(o.threads);
  model->window_frequencies_ = rope_frequencies(c.rope_theta, c.qk_rope_head_dim, nullptr);
  model->compressed_frequencies_ =
      rope_frequencies(c.compress_rope_theta, c.qk_rope_head_dim, planted(Fault::no_yarn) ? nullptr : &c.rope_scaling);
  model->checkpoint_ = std::move(checkpoint);
  DI_RETURN_IF_ERROR(model->plan());
  return model;
}

int64_t Model::scratch_bytes() const { return arena_bytes_ + thread_scratch_bytes_ * pool_->threads(); }

Result<StepResult> Model::forward(const Step& step) {
  int64_t rows = 0, logit_rows = 0;
  if (static_cast<int64_t>(step.runs.size()) > limits_.max_runs) {
    return error(Code::resource_exhausted, "step: {} runs, planned for {}", step.runs.size(), limits_.max_runs);
  }
  for (const Run& run : step.runs) {
    const int64_t start = run.state->length(), count = static_cast<int64_t>(run.tokens.size()), end = start + count;
    if (count == 0) return invalid("step: a run without tokens");
    rows += count;
    if (run.logits != LogitRows::none) logit_rows += run.logits == LogitRows::all ? count : 1;
    if (end > limits_.max_context) {
      return error(Code::resource_exhausted, "a sequence of {} tokens is longer than the context of {}", end,
                   limits_.max_context);
    }
    for (const int32_t token : run.tokens) {
      if (token < 0 || token >= config().vocab_size)
        return invalid("token id {}: the vocabulary has {} ids", token, config().vocab_size);
    }
    if (run.decoder_from > start && layout_->decoder_start < 0)
      return invalid("step: this model has no decoder half to replay");
    const int64_t first_logit = run.logits == LogitRows::all ? start : end - 1;
    if (run.logits != LogitRows::none && run.decoder_from > first_logit) {
      return invalid("step: logits of position {} are wanted, the decoder half starts at {}", first_logit,
                     run.decoder_from);
    }
    if (run.decoder_from > start && start > run.state->window_begin() && start > 0) {
      return invalid("step: the decoder half of this sequence has begun at {}, it cannot skip to {}",
                     run.state->window_begin(), run.decoder_from);
    }
  }
  if (rows > limits_.max_step_tokens) {
    return error(Code::resource_exhausted, "step: {} tokens, planned for {}", rows, limits_.max_step_tokens);
  }
  if (logit_rows > limits_.max_logit_rows) {
    return error(Code::resource_exhausted, "step: logits of {} rows, planned for {}", logit_rows,
                 limits_.max_logit_rows);
  }
  for (const Run& run : step.runs) {
    DI_RETURN_IF_ERROR(run.state->reserve(run.state->length() + static_cast<int64_t>(run.tokens.size())));
  }
  for (const Run& run : step.runs) {
    const int64_t start = run.state->length();
    if (run.decoder_from > start) {
      run.state->set_window_begin(std::min(run.decoder_from, start + static_cast<int64_t>(run.tokens.size())));
    }
  }
  Result<StepResult> result = Forward(*this, step.runs, step.probe).run();
  if (!result.ok()) {
    // Rings may have been overwritten: a half-made step is not a state.
    for (const Run& run : step.runs) run.state->clear();
  }
  return result;
}

Result<DraftResult> Model::draft(std::span<const DraftRun> drafts, Probe* probe) {
  const int64_t rows = static_cast<int64_t>(drafts.size()) * config().dspark_block_size;
  if (layout_->draft_stages == 0) return invalid("draft: the model was loaded without drafts");
  if (rows > limits_.max_step_tokens || rows > limits_.max_logit_rows ||
      static_cast<int64_t>(drafts.size()) > limits_.max_runs) {
    return error(Code::resource_exhausted, "draft: {} rows, planned for {}", rows,
                 std::min(limits_.max_step_tokens, limits_.max_logit_rows));
  }
  std::vector<Run> runs;
  for (const DraftRun& draft : drafts) {
    if (draft.token < 0 || draft.token >= config().vocab_size)
      return invalid("token id {}: the vocabulary has {} ids", draft.token, config().vocab_size);
    if (draft.state->length() == 0) return invalid("draft: the sequence is empty");
    runs.push_back({draft.state, {}, LogitRows::none, 0});
  }
  return Forward(*this, runs, probe).run_draft(drafts);
}

Status Model::feed_drafts(SequenceState& state, int64_t first_position, Rows<const bf16> main_hidden) {
  if (layout_->draft_stages == 0) return invalid("draft rings: the model was loaded without drafts");
  if (main_hidden.rows > limits_.max_step_tokens) {
    return error(Code::resource_exhausted, "draft rings: {} rows, planned for {}", main_hidden.rows,
                 limits_.max_step_tokens);
  }
  const Run run{&state, {}, LogitRows::none, 0};
  return Forward(*this, {&run, 1}, nullptr).run_feed(first_position, main_hidden);
}

}  // namespace deepinfer
