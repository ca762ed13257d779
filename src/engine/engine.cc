#include "deepinfer/engine.h"

#include <algorithm>
#include <chrono>
#include <deque>

#include "base/threads.h"
#include "deepinfer/chat_format.h"
#include "engine/generation.h"
#include "engine/model_dir.h"
#include "model/model.h"

namespace deepinfer {
namespace {

constexpr int64_t kMaxBatch = 4096;
constexpr int64_t kMaxChunk = int64_t{1} << 16;

}  // namespace

const char* finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::cancelled:
      return "cancelled";
    case FinishReason::failed:
      return "failed";
  }
  return "";
}

struct Engine::Impl {
  EngineOptions options;
  SamplingParams default_sampling;
  std::optional<Tokenizer> tokenizer;
  std::unique_ptr<Model> model;
  std::optional<PagePool> pool;
  std::deque<std::unique_ptr<Generation>> waiting;
  std::vector<std::unique_ptr<Generation>> running;  // in order of arrival
  RequestId next_id = 0;
  double load_s = 0;
  int64_t weight_bytes = 0;

  Result<std::vector<int32_t>> prompt_of(const Request& request, AnswerRules& rules) const;
  Result<std::vector<Delta>> step();
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Result<Engine> Engine::open(const ModelOptions& model, const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (model.device == Device::cuda) return error(Code::unsupported, "device cuda: this build runs on the CPU only");
  if (options.max_batch < 1 || options.max_batch > kMaxBatch)
    return invalid("max_batch: {}, accepted are 1 to {}", options.max_batch, kMaxBatch);
  if (options.prefill_chunk < 1 || options.prefill_chunk > kMaxChunk)
    return invalid("prefill_chunk: {}, accepted are 1 to {}", options.prefill_chunk, kMaxChunk);
  if (model.threads < 0 || model.threads > max_threads())
    return invalid("threads: {}, accepted are 0 (one per core) to {}", model.threads, max_threads());
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  DI_ASSIGN_OR_RETURN(Checkpoint opened, Checkpoint::open(model.model_dir));
  auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened));
  const ModelConfig& config = checkpoint->config();
  DI_ASSIGN_OR_RETURN(impl->tokenizer, read_tokenizer(model.model_dir));
  DI_ASSIGN_OR_RETURN(impl->default_sampling, read_default_sampling(model.model_dir));
  const Tokenizer* tokenizer = impl->tokenizer.has_value() ? &*impl->tokenizer : nullptr;
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> classes, read_token_classes(model.model_dir, config, tokenizer));
  for (const auto& [name, tensor] : checkpoint->tensors()) impl->weight_bytes += tensor.bytes;

  ModelLimits limits;
  limits.threads = model.threads;
  limits.instruction_set = model.instruction_set;
  limits.max_step_tokens = options.prefill_chunk + options.max_batch;
  limits.max_logit_rows = options.max_batch;
  limits.max_runs = options.max_batch;
  limits.max_context = options.max_context;
  DI_ASSIGN_OR_RETURN(impl->model, Model::load(checkpoint, std::move(classes), limits));
  const StateLayout& layout = *impl->model->layout();
  const int64_t pages = options.max_batch * layout.pages_for(impl->model->limits().max_context);
  DI_ASSIGN_OR_RETURN(PagePool pool, PagePool::create(layout.page_bytes(), pages));
  impl->pool.emplace(std::move(pool));
  impl->load_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return Engine(std::move(impl));
}

// Renders and encodes; says where the answer begins.
Result<std::vector<int32_t>> Engine::Impl::prompt_of(const Request& request, AnswerRules& rules) const {
  const ModelConfig& config = model->config();
  rules.eos = config.eos_token_id;
  std::vector<int32_t> ids;
  if (request.prompt_token_ids.has_value()) {
    ids = *request.prompt_token_ids;
  } else if (!tokenizer.has_value()) {
    return error(Code::not_found, "the model directory has no tokenizer.json: only prompt_token_ids can be answered");
  } else if (request.prompt.has_value()) {
    ids = tokenizer->encode(*request.prompt);
  } else {
    DI_ASSIGN_OR_RETURN(const RenderedPrompt prompt, ChatFormat::render(request.conversation));
    DI_ASSIGN_OR_RETURN(ids, tokenizer->encode_ranges(prompt.text, prompt.special_ranges));
    if (prompt.answer_start == AnswerStart::reasoning || prompt.answer_start == AnswerStart::continued_reasoning) {
      rules.end_of_thinking = tokenizer->token_id("</think>");
    }
  }
  if (ids.empty()) return invalid("prompt: it has no tokens");
  const int64_t max_context = model->limits().max_context;
  if (static_cast<int64_t>(ids.size()) > max_context) {
    return invalid("prompt: {} tokens, the context holds {}", ids.size(), max_context);
  }
  for (const int32_t id : ids) {
    if (id < 0 || id >= config.vocab_size)
      return invalid("prompt_token_ids: id {}, the vocabulary has ids 0 to {}", id, config.vocab_size - 1);
    if (id == config.image_token_id) {
      return error(Code::unsupported, "prompt: id {} stands for image input, which this version does not take", id);
    }
  }
  for (const int32_t id : request.sampling.stop_token_ids) {
    if (id < 0 || id >= config.vocab_size)
      return invalid("stop_token_ids: id {}, the vocabulary has ids 0 to {}", id, config.vocab_size - 1);
  }
  for (const auto& [id, bias] : request.sampling.logit_bias) {
    if (id < 0 || id >= config.vocab_size)
      return invalid("logit_bias: id {}, the vocabulary has ids 0 to {}", id, config.vocab_size - 1);
  }
  return ids;
}

Result<RequestId> Engine::add(const Request& request) {
  DI_RETURN_IF_ERROR(validate(request));
  DI_RETURN_IF_ERROR(supported_now(request));
  AnswerRules rules;
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, impl_->prompt_of(request, rules));
  const RequestId id = impl_->next_id++;
  const Tokenizer* tokenizer = impl_->tokenizer.has_value() ? &*impl_->tokenizer : nullptr;
  impl_->waiting.push_back(std::make_unique<Generation>(
      id, request, request.sampling.seed.value_or(impl_->options.seed + id), std::move(ids), rules, tokenizer,
      SequenceState(impl_->model->layout(), &*impl_->pool)));
  return id;
}

// Every running sequence gets its next token; what is left of the budget goes to prompts, in order of arrival.
Result<std::vector<Delta>> Engine::Impl::step() {
  while (!waiting.empty() && static_cast<int64_t>(running.size()) < options.max_batch) {
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
  std::vector<Delta> deltas;
  std::vector<Run> runs;
  std::vector<Generation*> order;
  int64_t budget = options.prefill_chunk;
  for (const auto& generation : running) {
    if (generation->cancelled) {
      deltas.push_back({generation->id(), {}, {}, false, {}});
      generation->finish(FinishReason::cancelled, deltas.back());
      continue;
    }
    const int64_t room = generation->in_prompt() ? budget : 1;
    const std::span<const int32_t> tokens = generation->next_tokens(room);
    if (tokens.empty()) continue;  // a prompt that has to wait for the next step
    if (generation->in_prompt()) budget -= static_cast<int64_t>(tokens.size());
    const bool wants = generation->wants_logits(static_cast<int64_t>(tokens.size()));
    runs.push_back({&generation->state(), tokens, wants ? LogitRows::last : LogitRows::none, 0});
    order.push_back(generation.get());
  }
  if (!runs.empty()) {
    std::vector<bool> wants;
    for (const Run& run : runs) wants.push_back(run.logits == LogitRows::last);
    DI_ASSIGN_OR_RETURN(const StepResult result, model->forward({runs, nullptr}));
    int64_t row = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (!wants[i]) continue;
      Delta delta;
      delta.request = order[i]->id();
      const std::span<const float> logits(result.logits.row(row++), static_cast<size_t>(result.logits.cols));
      if (const Status status = order[i]->accept(logits, model->limits().max_context, delta); !status.ok()) {
        order[i]->finish(FinishReason::failed, delta);
        delta.output.error = status;
      }
      deltas.push_back(std::move(delta));
    }
  }
  std::erase_if(running, [](const auto& generation) { return generation->finished(); });
  for (Delta& delta : deltas) delta.output.timing.load_s = load_s;
  return deltas;
}

Result<std::vector<Delta>> Engine::step() { return impl_->step(); }

Status Engine::cancel(RequestId id) {
  for (const auto& generation : impl_->running) {
    if (generation->id() == id) {
      generation->cancelled = true;
      return {};
    }
  }
  for (const auto& generation : impl_->waiting) {
    if (generation->id() == id) {
      generation->cancelled = true;
      return {};
    }
  }
  return error(Code::not_found, "request {}: not waiting and not running", id);
}

bool Engine::idle() const { return impl_->waiting.empty() && impl_->running.empty(); }

Result<std::vector<Output>> Engine::generate(const std::vector<Request>& requests,
                                             const std::function<void(const Delta&)>& on_delta) {
  std::vector<RequestId> ids;
  for (const Request& request : requests) {
    Result<RequestId> id = add(request);
    if (!id.ok()) {
      for (const RequestId added : ids) static_cast<void>(cancel(added).ok());
      while (!idle()) {
        if (!step().ok()) break;
      }
      return id.status();
    }
    ids.push_back(*id);
  }
  std::vector<Output> outputs(requests.size());
  while (!idle()) {
    DI_ASSIGN_OR_RETURN(std::vector<Delta> deltas, step());
    for (Delta& delta : deltas) {
      if (on_delta) on_delta(delta);
      const auto it = std::find(ids.begin(), ids.end(), delta.request);
      if (delta.finished && it != ids.end()) outputs[static_cast<size_t>(it - ids.begin())] = std::move(delta.output);
    }
  }
  return outputs;
}

const SamplingParams& Engine::default_sampling() const { return impl_->default_sampling; }
const Tokenizer* Engine::tokenizer() const { return impl_->tokenizer.has_value() ? &*impl_->tokenizer : nullptr; }

std::string Engine::description() const {
  const ModelConfig& config = impl_->model->config();
  const ModelLimits& limits = impl_->model->limits();
  return fmt::format(
      "{} layers, {:.1f} MB of weights mapped (none copied), {} kernels, {} threads, {:.1f} MB of scratch, context {}",
      config.num_hidden_layers, static_cast<double>(impl_->weight_bytes) * 1e-6, impl_->model->kernels().name,
      limits.threads, static_cast<double>(impl_->model->scratch_bytes()) * 1e-6, limits.max_context);
}

}  // namespace deepinfer
