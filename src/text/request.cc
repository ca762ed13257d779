#include "deepinfer/request.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "text/json.h"

namespace deepinfer {
namespace {

// Written so that NaN is outside every range.
Status check_range(const char* field, double value, double low, double high) {
  if (value >= low && value <= high) return {};
  return invalid("{}: {} is outside {} to {}", field, value, low, high);
}
Status check_above_zero(const char* field, double value, double high) {
  if (value > 0 && value <= high) return {};
  return invalid("{}: {} is not above 0 and at most {}", field, value, high);
}
Status check_integer(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return {};
  if (high == INT64_MAX) return invalid("{}: {} is below {}", field, value, low);
  return invalid("{}: {} is outside {} to {}", field, value, low, high);
}
Status check_text(const std::string& field, const std::string& text) {
  const size_t bad = find_invalid_utf8(text);
  if (bad == std::string::npos) return {};
  return invalid("{}: not valid UTF-8 (byte {})", field, bad);
}

Status check_tools(const std::string& path, const std::vector<Tool>& tools) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < tools.size(); ++i) {
    const std::string at = fmt::format("{}[{}].function", path, i);
    const Tool& tool = tools[i];
    if (tool.name.empty()) return invalid("{}.name: a tool needs a name", at);
    if (!names.insert(tool.name).second) return invalid("{}.name: '{}' is declared twice", at, tool.name);
    DI_RETURN_IF_ERROR(check_text(at + ".name", tool.name));
    DI_RETURN_IF_ERROR(check_text(at + ".description", tool.description.value_or("")));
    if (tool.parameters.empty()) continue;
    const Result<JsonValue> schema = JsonValue::parse(tool.parameters);
    if (!schema.ok()) return invalid("{}.parameters: {}", at, schema.status().message());
    if (!schema->is(JsonValue::Kind::object))
      return invalid("{}.parameters: {} where an object is expected", at, schema->kind_name());
  }
  return {};
}

Status check_message(const std::string& at, const Message& message, bool last) {
  const auto only = [&](bool present, const char* field, Role role) -> Status {
    if (!present || message.role == role) return {};
    return invalid("{}.{}: not a field of {} messages", at, field, role_name(message.role));
  };
  DI_RETURN_IF_ERROR(only(message.reasoning_content.has_value(), "reasoning_content", Role::assistant));
  DI_RETURN_IF_ERROR(only(!message.tool_calls.empty(), "tool_calls", Role::assistant));
  DI_RETURN_IF_ERROR(only(message.prefix, "prefix", Role::assistant));
  DI_RETURN_IF_ERROR(only(message.tool_call_id.has_value(), "tool_call_id", Role::tool));
  DI_RETURN_IF_ERROR(only(!message.tools.empty(), "tools", Role::system));
  DI_RETURN_IF_ERROR(check_text(at + ".content", message.content));
  DI_RETURN_IF_ERROR(check_text(at + ".reasoning_content", message.reasoning_content.value_or("")));
  for (size_t i = 0; i < message.tool_calls.size(); ++i) {
    const std::string call = fmt::format("{}.tool_calls[{}].function", at, i);
    if (message.tool_calls[i].name.empty()) return invalid("{}.name: a call needs a name", call);
    DI_RETURN_IF_ERROR(check_text(call + ".name", message.tool_calls[i].name));
    DI_RETURN_IF_ERROR(check_text(call + ".arguments", message.tool_calls[i].arguments));
  }
  if (message.prefix && !last) return invalid("{}.prefix: only the last message can be continued", at);
  if (message.prefix && !message.tool_calls.empty())
    return invalid("{}.prefix: a message with tool_calls cannot be continued", at);
  return check_tools(at + ".tools", message.tools);
}

Status check_response_format(const ResponseFormat& format) {
  if (format.kind == ResponseFormat::Kind::json_schema) {
    const Result<JsonValue> schema = JsonValue::parse(format.schema);
    if (!schema.ok()) return invalid("response_format.json_schema.schema: {}", schema.status().message());
  }
  if (format.kind == ResponseFormat::Kind::regex && format.schema.empty())
    return invalid("response_format.regex: empty");
  if (format.kind == ResponseFormat::Kind::ebnf && format.schema.empty()) return invalid("response_format.ebnf: empty");
  return check_text("response_format", format.schema);
}

Status check_conversation(const Conversation& chat) {
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    DI_RETURN_IF_ERROR(check_message(fmt::format("messages[{}]", i), chat.messages[i], i + 1 == chat.messages.size()));
  }
  DI_RETURN_IF_ERROR(check_tools("tools", chat.tools));
  const ToolChoice& choice = chat.tool_choice;
  const bool forced = choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  if (forced && chat.tools.empty()) return invalid("tool_choice: a call is asked for, but there are no tools");
  if (choice.kind == ToolChoice::Kind::named &&
      std::none_of(chat.tools.begin(), chat.tools.end(), [&](const Tool& tool) { return tool.name == choice.name; })) {
    return invalid("tool_choice: no tool is named '{}'", choice.name);
  }
  if (forced && chat.messages.back().prefix)
    return invalid("tool_choice: a call cannot be forced into a message with prefix");
  if (chat.reasoning_effort) DI_RETURN_IF_ERROR(check_integer("reasoning_effort", *chat.reasoning_effort, 0, 100));
  return {};
}

}  // namespace

const char* role_name(Role role) {
  switch (role) {
    case Role::system:
      return "system";
    case Role::user:
      return "user";
    case Role::assistant:
      return "assistant";
    case Role::tool:
      return "tool";
    case Role::latest_reminder:
      return "latest_reminder";
  }
  return "";
}

std::optional<int> reasoning_effort_level(const std::string& name) {
  if (name == "none") return 0;
  if (name == "minimal" || name == "low") return 50;
  if (name == "medium" || name == "high" || name == "xhigh") return 75;
  if (name == "max" || name == "ultra") return 100;
  return std::nullopt;
}

Status SamplingParams::validate() const {
  if (max_tokens) DI_RETURN_IF_ERROR(check_integer("max_tokens", *max_tokens, 1, INT64_MAX));
  DI_RETURN_IF_ERROR(check_integer("min_tokens", min_tokens, 0, INT64_MAX));
  if (max_tokens && min_tokens > *max_tokens)
    return invalid("min_tokens: {} is above max_tokens ({})", min_tokens, *max_tokens);
  DI_RETURN_IF_ERROR(check_range("temperature", temperature, 0, 100));
  if (top_k < -1 || top_k > INT32_MAX)
    return invalid("top_k: {} is neither a number of tokens nor 0 or -1 (all)", top_k);
  DI_RETURN_IF_ERROR(check_above_zero("top_p", top_p, 1));
  DI_RETURN_IF_ERROR(check_range("min_p", min_p, 0, 1));
  DI_RETURN_IF_ERROR(check_range("presence_penalty", presence_penalty, -2, 2));
  DI_RETURN_IF_ERROR(check_range("frequency_penalty", frequency_penalty, -2, 2));
  DI_RETURN_IF_ERROR(check_above_zero("repetition_penalty", repetition_penalty, 10));
  std::set<int32_t> biased;
  for (const auto& [id, bias] : logit_bias) {
    const std::string field = fmt::format("logit_bias[{}]", id);
    if (id < 0) return invalid("{}: not a token id", field);
    if (!biased.insert(id).second) return invalid("{}: given twice", field);
    DI_RETURN_IF_ERROR(check_range(field.c_str(), bias, -100, 100));
  }
  if (stop.size() > 16) return invalid("stop: {} strings, at most 16 are accepted", stop.size());
  for (size_t i = 0; i < stop.size(); ++i) {
    if (stop[i].empty()) return invalid("stop[{}]: empty", i);
    DI_RETURN_IF_ERROR(check_text(fmt::format("stop[{}]", i), stop[i]));
  }
  for (size_t i = 0; i < stop_token_ids.size(); ++i) {
    if (stop_token_ids[i] < 0) return invalid("stop_token_ids[{}]: {} is not a token id", i, stop_token_ids[i]);
  }
  if (seed && *seed > static_cast<uint64_t>(INT64_MAX)) return invalid("seed: {} is not below 2^63", *seed);
  DI_RETURN_IF_ERROR(check_integer("n", n, 1, 128));
  if (logprobs) DI_RETURN_IF_ERROR(check_integer("logprobs", *logprobs, 0, 20));
  return {};
}

Status validate(const Request& request) {
  const Conversation& chat = request.conversation;
  std::string given;
  int count = 0;
  const auto source = [&](bool present, const char* name) {
    if (!present) return;
    given += count++ > 0 ? std::string(", ") + name : name;
  };
  source(!chat.messages.empty(), "messages");
  source(request.prompt.has_value(), "prompt");
  source(request.prompt_token_ids.has_value(), "prompt_token_ids");
  if (count != 1) {
    return invalid("a request needs exactly one of messages, prompt, prompt_token_ids; this one has {}",
                   count == 0 ? "none" : given);
  }
  DI_RETURN_IF_ERROR(check_text("id", request.id));
  if (!chat.messages.empty()) {
    DI_RETURN_IF_ERROR(check_conversation(chat));
  } else {
    const char* chat_only = !chat.tools.empty()                                    ? "tools"
                            : chat.tool_choice.kind != ToolChoice::Kind::automatic ? "tool_choice"
                            : chat.thinking.has_value()                            ? "thinking"
                            : chat.reasoning_effort.has_value()                    ? "reasoning_effort"
                                                                                   : nullptr;
    if (chat_only != nullptr) return invalid("{}: only with messages; this request has {}", chat_only, given);
  }
  if (request.prompt) {
    if (request.prompt->empty()) return invalid("prompt: empty");
    DI_RETURN_IF_ERROR(check_text("prompt", *request.prompt));
  }
  if (request.prompt_token_ids) {
    const std::vector<int32_t>& ids = *request.prompt_token_ids;
    if (ids.empty()) return invalid("prompt_token_ids: empty");
    const auto bad = std::find_if(ids.begin(), ids.end(), [](int32_t id) { return id < 0; });
    if (bad != ids.end()) return invalid("prompt_token_ids[{}]: {} is not a token id", bad - ids.begin(), *bad);
  }
  DI_RETURN_IF_ERROR(check_response_format(chat.response_format));
  if (request.thinking_budget) {
    DI_RETURN_IF_ERROR(check_integer("thinking_budget", *request.thinking_budget, 1, INT64_MAX));
    if (!chat.thinks()) return invalid("thinking_budget: the request does not think");
  }
  return request.sampling.validate();
}

Status supported_now(const Request& request) {
  const auto later = [](std::string_view field, std::string_view what) {
    return error(Code::unsupported, "{}: {} not part of this version", field, what);
  };
  const Conversation& chat = request.conversation;
  if (!chat.tools.empty() && chat.tool_choice.kind != ToolChoice::Kind::none)
    return later("tools", "tool calls in answers are");
  for (size_t i = 0; i < chat.messages.size(); ++i) {
    if (!chat.messages[i].tools.empty())
      return later(fmt::format("messages[{}].tools", i), "tool calls in answers are");
  }
  if (chat.response_format.kind != ResponseFormat::Kind::text)
    return later("response_format", "constrained answers are");
  if (request.thinking_budget) return later("thinking_budget", "a limit of its own for reasoning is");
  const SamplingParams& sampling = request.sampling;
  if (!sampling.stop.empty()) return later("stop", "stop strings are");
  if (sampling.n > 1) return later("n", "several answers to one prompt are");
  return {};
}

}  // namespace deepinfer
