#include "cli/run_command.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdio>

#include "base/file.h"
#include "cli/json_line.h"
#include "cli/token_ids.h"
#include "deepinfer/engine.h"
#include "text/request_json.h"

namespace deepinfer {
namespace {

Result<std::pair<int32_t, double>> parse_bias(std::string_view text) {
  const size_t sign = text.find_first_of("=:");
  std::pair<int32_t, double> bias;
  const char* end = text.data() + text.size();
  if (sign != std::string_view::npos) {
    const auto id = std::from_chars(text.data(), text.data() + sign, bias.first);
    const auto value = std::from_chars(text.data() + sign + 1, end, bias.second);
    if (id.ec == std::errc() && id.ptr == text.data() + sign && value.ec == std::errc() && value.ptr == end)
      return bias;
  }
  return invalid("--logit-bias: '{}' is not ID=VALUE", text);
}

double rate(int64_t tokens, double seconds) { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }

// Tokens that decoding produced: the first one comes out of prefill.
double decode_rate(const Output& output) { return rate(output.usage.completion_tokens - 1, output.timing.decode_s); }

std::string output_json(const Output& output) {
  JsonLine usage, timing, line;
  usage.add("prompt_tokens", output.usage.prompt_tokens)
      .add("completion_tokens", output.usage.completion_tokens)
      .add("cached_tokens", output.usage.cached_tokens)
      .add("drafted_tokens", output.usage.drafted_tokens)
      .add("accepted_tokens", output.usage.accepted_tokens);
  timing.add("load_s", output.timing.load_s)
      .add("prefill_s", output.timing.prefill_s)
      .add("decode_s", output.timing.decode_s)
      .add("prefill_tokens_per_s", rate(output.usage.prompt_tokens, output.timing.prefill_s))
      .add("decode_tokens_per_s", decode_rate(output));
  std::string logprobs = "[";
  for (const TokenLogprobs& t : output.logprobs) {
    std::string top = "[";
    for (const auto& [id, logprob] : t.top)
      top += fmt::format("{}[{},{}]", top.size() > 1 ? "," : "", id, json_value(logprob));
    JsonLine token;
    token.add("token", t.token).add("logprob", t.logprob).raw("top", top + "]");
    logprobs += (logprobs.size() > 1 ? "," : "") + token.str();
  }
  line.add("id", output.id)
      .add("text", output.text)
      .add("reasoning_content", output.reasoning_content)
      .raw("tool_calls", "[]")
      .add("finish_reason", finish_reason_name(output.finish_reason))
      .raw("prompt_token_ids", json_list(output.prompt_token_ids))
      .raw("token_ids", json_list(output.token_ids))
      .raw("logprobs", logprobs + "]")
      .raw("usage", usage.str())
      .raw("timing", timing.str());
  return line.str();
}

void print_part(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace

void add_run_options(CLI::App& command, RunOptions& o) {
  command.add_option("TEXT", o.text, "the question: one user message");
  command.add_option("--prompt", o.prompt, "raw prompt text, no chat format");
  command.add_option("--raw-ids", o.raw_ids, "prompt as token ids: 1,2,3");
  command.add_option("--messages", o.messages, "file with a request object (docs/requests.md)");
  command.add_flag("--thinking", o.thinking, "let the model think first");
  command.add_flag("--no-thinking", o.no_thinking, "answer at once (the default)");
  command.add_option("--effort", o.effort, "how thoroughly to think: low, medium, high, max, or 1..100");
  command.add_option("--thinking-budget", o.thinking_budget, "most tokens of reasoning");
  SamplingFlags& s = o.sampling;
  command.add_option("--max-tokens", s.max_tokens, "most tokens of the answer (default: until the context is full)");
  command.add_option("--min-tokens", s.min_tokens, "least tokens of the answer");
  command.add_option("--temperature", s.temperature, "0: always the likeliest token (default: the model's)");
  command.add_option("--top-k", s.top_k, "keep the k likeliest tokens; 0: all");
  command.add_option("--top-p", s.top_p, "keep the likeliest tokens with this share");
  command.add_option("--min-p", s.min_p, "keep tokens at least this likely relative to the likeliest");
  command.add_option("--presence-penalty", s.presence_penalty, "subtracted from logits of tokens in the answer");
  command.add_option("--frequency-penalty", s.frequency_penalty, "subtracted for every occurrence in the answer");
  command.add_option("--repetition-penalty", s.repetition_penalty, "divides logits of tokens in prompt or answer");
  command.add_option("--logit-bias", s.logit_bias, "ID=VALUE, may be repeated")->type_name("ID=VALUE");
  command.add_option("--stop", s.stop, "text that ends the answer, may be repeated");
  command.add_option("--stop-token-ids", s.stop_token_ids, "ids that end the answer: 1,2,3")->delimiter(',');
  command.add_flag("--ignore-eos", s.ignore_eos, "the end token does not end the answer");
  command.add_option("--logprobs", s.logprobs, "report the N likeliest tokens at each place");
  command.add_option("--n", s.n, "number of answers");
  command.add_option("--max-batch", o.max_batch, "sequences that run at the same time")->capture_default_str();
  command.add_option("--prefill-chunk", o.prefill_chunk, "prompt tokens of a step")->capture_default_str();
  command.add_option("--max-context", o.max_context, "tokens of prompt and answer; 0: what the model was made for")
      ->capture_default_str();
  command.add_option("--drafts", o.drafts, "draft tokens a step; this version decodes without drafts (0)")
      ->capture_default_str();
}

Result<SamplingParams> apply_flags(const SamplingFlags& flags, SamplingParams p) {
  const auto set = [](const auto& flag, auto& field) {
    if (flag.has_value()) field = *flag;
  };
  set(flags.max_tokens, p.max_tokens);
  set(flags.min_tokens, p.min_tokens);
  set(flags.temperature, p.temperature);
  set(flags.top_k, p.top_k);
  set(flags.top_p, p.top_p);
  set(flags.min_p, p.min_p);
  set(flags.presence_penalty, p.presence_penalty);
  set(flags.frequency_penalty, p.frequency_penalty);
  set(flags.repetition_penalty, p.repetition_penalty);
  set(flags.logprobs, p.logprobs);
  set(flags.n, p.n);
  for (const std::string& text : flags.logit_bias) {
    DI_ASSIGN_OR_RETURN(const auto bias, parse_bias(text));
    p.logit_bias.push_back(bias);
  }
  if (!flags.stop.empty()) p.stop = flags.stop;
  if (!flags.stop_token_ids.empty()) p.stop_token_ids = flags.stop_token_ids;
  if (flags.ignore_eos) p.ignore_eos = true;
  DI_RETURN_IF_ERROR(p.validate());
  return p;
}

Result<Request> request_of(const RunOptions& o, const Globals& globals, const SamplingParams& model_defaults) {
  const int sources = !o.text.empty() + o.prompt.has_value() + o.raw_ids.has_value() + o.messages.has_value();
  if (sources != 1)
    return invalid("run: exactly one of TEXT, --prompt, --raw-ids and --messages is needed, {} were given", sources);
  if (o.thinking && o.no_thinking) return invalid("run: --thinking and --no-thinking exclude each other");
  if (o.drafts != 0)
    return error(Code::unsupported, "--drafts {}: this version decodes without drafts; accepted is 0", o.drafts);
  DI_ASSIGN_OR_RETURN(SamplingParams defaults, apply_flags(o.sampling, model_defaults));
  if (globals.seed.has_value()) defaults.seed = globals.seed;
  Request request;
  if (o.messages.has_value()) {
    DI_ASSIGN_OR_RETURN(const std::string json, read_file(*o.messages, size_t{64} << 20));
    Result<Request> read = read_request(json, defaults);
    if (!read.ok()) return Status(read.status().code(), *o.messages + ": " + read.status().message());
    request = std::move(read).value();
  } else {
    request.sampling = defaults;
    if (o.prompt.has_value()) request.prompt = *o.prompt;
    if (o.raw_ids.has_value()) {
      DI_ASSIGN_OR_RETURN(request.prompt_token_ids, parse_token_ids("--raw-ids", *o.raw_ids));
    }
    if (!o.text.empty()) {
      Message message;
      message.content = o.text;
      request.conversation.messages.push_back(std::move(message));
    }
  }
  if (o.thinking || o.no_thinking) request.conversation.thinking = o.thinking;
  if (!o.effort.empty()) {
    int level = 0;
    const auto [end, problem] = std::from_chars(o.effort.data(), o.effort.data() + o.effort.size(), level);
    if (problem != std::errc() || end != o.effort.data() + o.effort.size() || level < 1 || level > 100) {
      const std::optional<int> named = reasoning_effort_level(o.effort);
      if (!named.has_value())
        return invalid("--effort {}: accepted are none, minimal, low, medium, high, xhigh, max, or 1..100", o.effort);
      level = *named;
    }
    request.conversation.reasoning_effort = level;
  }
  if (o.thinking_budget.has_value()) request.thinking_budget = o.thinking_budget;
  return request;
}

int run_run(const RunOptions& options, const Globals& globals) {
  Result<ModelOptions> model = globals.model_options();
  if (!model.ok()) return report(model.status());
  EngineOptions engine_options;
  engine_options.max_batch = options.max_batch;
  engine_options.prefill_chunk = options.prefill_chunk;
  engine_options.max_context = options.max_context;
  engine_options.seed = globals.seed.value_or(0);
  Result<Engine> engine = Engine::open(*model, engine_options);
  if (!engine.ok()) return report(engine.status());
  const Result<Request> request = request_of(options, globals, engine->default_sampling());
  if (!request.ok()) return report(request.status());

  const bool dim = !globals.json && isatty(STDOUT_FILENO) == 1;
  bool reasoning = false;
  const auto stream = [&](const Delta& delta) {
    if (globals.json) return;
    if (!delta.reasoning.empty()) {
      if (!reasoning && dim) print_part("\033[2m");
      reasoning = true;
      print_part(delta.reasoning);
    }
    if (!delta.text.empty()) {
      if (reasoning) print_part(dim ? "\033[0m\n" : "\n");
      reasoning = false;
      print_part(delta.text);
    }
  };
  const Result<std::vector<Output>> outputs = engine->generate({*request}, stream);
  if (!outputs.ok()) return report(outputs.status());
  const Output& output = outputs->front();
  if (output.finish_reason == FinishReason::failed) return report(output.error);
  if (globals.json) {
    print_part(output_json(output) + "\n");
  } else {
    print_part(reasoning && dim ? "\033[0m\n" : "\n");
  }
  fmt::print(stderr, "{}\n", engine->description());
  fmt::print(
      stderr, "load {:.3f} s | prefill {} tokens, {:.0f} tokens/s | decode {} tokens, {:.0f} tokens/s | finish: {}\n",
      output.timing.load_s, output.usage.prompt_tokens, rate(output.usage.prompt_tokens, output.timing.prefill_s),
      output.usage.completion_tokens, decode_rate(output), finish_reason_name(output.finish_reason));
  return Globals::kDone;
}

}  // namespace deepinfer
