#include "text/request_json.h"

#include <charconv>

#include "text/json_fields.h"
#include "text/request_messages.h"

namespace deepinfer {
namespace {

using Kind = JsonValue::Kind;

Status read_ids(const std::string& path, const JsonValue& list, std::vector<int32_t>& out) {
  out.clear();
  return for_items(path, list, [&](const JsonValue& item, const std::string& at) {
    return Fields::integer(at, item, out.emplace_back());
  });
}

Status read_tool_choice(const JsonValue& value, ToolChoice& out) {
  if (value.is(Kind::string)) {
    const std::string& name = value.string();
    if (name != "auto" && name != "none" && name != "required") {
      return invalid("tool_choice: '{}'; accepted are auto, none, required, or an object that names a function", name);
    }
    out.kind = name == "none"       ? ToolChoice::Kind::none
               : name == "required" ? ToolChoice::Kind::required
                                    : ToolChoice::Kind::automatic;
    return {};
  }
  if (!value.is(Kind::object))
    return invalid("tool_choice: {} where a string or an object is expected", value.kind_name());
  const JsonValue* function = nullptr;
  DI_RETURN_IF_ERROR(read_function(value, "tool_choice", "tool_choice", nullptr, function));
  Fields fields(*function, "tool_choice.function");
  const JsonValue* name = nullptr;
  DI_RETURN_IF_ERROR(fields.need("name", name));
  out.kind = ToolChoice::Kind::named;
  DI_RETURN_IF_ERROR(fields.read("name", out.name));
  return fields.done("tool_choice.function");
}

Status read_response_format(const JsonValue& value, ResponseFormat& out) {
  DI_RETURN_IF_ERROR(Fields::expect_object(value, "response_format"));
  Fields fields(value, "response_format");
  const JsonValue* inner = nullptr;
  DI_RETURN_IF_ERROR(fields.need("type", inner));
  std::string type;
  DI_RETURN_IF_ERROR(fields.read("type", type));
  if (type == "json_object") {
    out.kind = ResponseFormat::Kind::json_object;
  } else if (type == "json_schema") {
    out.kind = ResponseFormat::Kind::json_schema;
    DI_RETURN_IF_ERROR(fields.need("json_schema", inner));
    DI_RETURN_IF_ERROR(Fields::expect_object(*inner, "response_format.json_schema"));
    Fields schema(*inner, "response_format.json_schema");
    DI_RETURN_IF_ERROR(schema.read("name", out.name));
    DI_RETURN_IF_ERROR(schema.read("description", out.description));
    DI_RETURN_IF_ERROR(schema.read("strict", out.strict));
    const JsonValue* text = nullptr;
    DI_RETURN_IF_ERROR(schema.need("schema", text));
    out.schema = text->dump();
    DI_RETURN_IF_ERROR(schema.done("json_schema"));
  } else if (type == "regex" || type == "ebnf") {
    out.kind = type == "regex" ? ResponseFormat::Kind::regex : ResponseFormat::Kind::ebnf;
    DI_RETURN_IF_ERROR(fields.need(type, inner));
    DI_RETURN_IF_ERROR(fields.read(type, out.schema));
  } else if (type != "text") {
    return invalid("response_format.type: '{}'; accepted are text, json_object, json_schema, regex, ebnf", type);
  }
  return fields.done("response_format of type " + type);
}

Status read_effort(const JsonValue& value, std::optional<int>& out) {
  constexpr std::string_view kAccepted =
      "accepted are none, minimal, low, medium, high, xhigh, max, ultra, or 1 to 100";
  if (value.is(Kind::string)) {
    out = reasoning_effort_level(value.string());
    return out ? Status() : invalid("reasoning_effort: '{}'; {}", value.string(), kAccepted);
  }
  const std::optional<int64_t> level = value.as_int64();
  if (!level) return invalid("reasoning_effort: {}; {}", value.kind_name(), kAccepted);
  if (*level < 1 || *level > 100) return invalid("reasoning_effort: {}; {}", *level, kAccepted);
  out = static_cast<int>(*level);
  return {};
}

Status read_logit_bias(const JsonValue& value, std::vector<std::pair<int32_t, double>>& out) {
  if (!value.is(Kind::object))
    return invalid("logit_bias: {} where an object (id to number) is expected", value.kind_name());
  out.clear();
  for (const JsonValue::Member& member : value.members()) {
    int32_t id = 0;
    const char* end = member.key.data() + member.key.size();
    const auto [stopped, failure] = std::from_chars(member.key.data(), end, id);
    if (failure != std::errc() || stopped != end) return invalid("logit_bias: '{}' is not a token id", member.key);
    if (!member.value.is(Kind::integer) && !member.value.is(Kind::real)) {
      return invalid("logit_bias.{}: {} where a number is expected", member.key, member.value.kind_name());
    }
    out.emplace_back(id, member.value.number());
  }
  return {};
}

Status read_sampling(Fields& fields, SamplingParams& out) {
  DI_RETURN_IF_ERROR(fields.read_integer("max_tokens", out.max_tokens));
  DI_RETURN_IF_ERROR(fields.read_integer("min_tokens", out.min_tokens));
  DI_RETURN_IF_ERROR(fields.read("temperature", out.temperature));
  DI_RETURN_IF_ERROR(fields.read_integer("top_k", out.top_k));
  DI_RETURN_IF_ERROR(fields.read("top_p", out.top_p));
  DI_RETURN_IF_ERROR(fields.read("min_p", out.min_p));
  DI_RETURN_IF_ERROR(fields.read("presence_penalty", out.presence_penalty));
  DI_RETURN_IF_ERROR(fields.read("frequency_penalty", out.frequency_penalty));
  DI_RETURN_IF_ERROR(fields.read("repetition_penalty", out.repetition_penalty));
  if (const JsonValue* bias = fields.take("logit_bias")) DI_RETURN_IF_ERROR(read_logit_bias(*bias, out.logit_bias));
  if (const JsonValue* stop = fields.take("stop")) {
    out.stop.clear();
    if (stop->is(Kind::string)) {
      out.stop.push_back(stop->string());
    } else {
      DI_RETURN_IF_ERROR(for_items("stop", *stop, [&](const JsonValue& item, const std::string& at) -> Status {
        if (!item.is(Kind::string)) return invalid("{}: {} where a string is expected", at, item.kind_name());
        out.stop.push_back(item.string());
        return {};
      }));
    }
  }
  if (const JsonValue* ids = fields.take("stop_token_ids"))
    DI_RETURN_IF_ERROR(read_ids("stop_token_ids", *ids, out.stop_token_ids));
  DI_RETURN_IF_ERROR(fields.read("ignore_eos", out.ignore_eos));
  if (const JsonValue* seed = fields.take("seed")) {
    out.seed = seed->as_uint64();
    if (!out.seed) return fields.wrong("seed", *seed, "an integer from 0 to 2^63 - 1");
  }
  DI_RETURN_IF_ERROR(fields.read_integer("n", out.n));
  return fields.read_integer("logprobs", out.logprobs);
}

}  // namespace

Result<Request> read_request(std::string_view json, const SamplingParams& defaults) {
  DI_ASSIGN_OR_RETURN(const JsonValue root, JsonValue::parse(json));
  DI_RETURN_IF_ERROR(Fields::expect_object(root, "request"));
  Request out;
  out.sampling = defaults;
  Fields fields(root, "");
  Conversation& chat = out.conversation;
  DI_RETURN_IF_ERROR(fields.read("id", out.id));
  if (const JsonValue* messages = fields.take("messages")) {
    DI_RETURN_IF_ERROR(for_items("messages", *messages, [&](const JsonValue& item, const std::string& at) {
      ResponseFormat* format = chat.messages.empty() ? &chat.response_format : nullptr;
      return read_message(item, at, chat.messages.emplace_back(), format);
    }));
    if (chat.messages.empty()) return invalid("messages: the list is empty");
  }
  DI_RETURN_IF_ERROR(fields.read("prompt", out.prompt));
  if (const JsonValue* ids = fields.take("prompt_token_ids")) {
    DI_RETURN_IF_ERROR(read_ids("prompt_token_ids", *ids, out.prompt_token_ids.emplace()));
  }
  if (const JsonValue* tools = fields.take("tools")) DI_RETURN_IF_ERROR(read_tools("tools", *tools, chat.tools));
  // Tools that only the first system message declares are the request's.
  if (chat.tools.empty() && !chat.messages.empty()) chat.tools.swap(chat.messages.front().tools);
  if (const JsonValue* choice = fields.take("tool_choice"))
    DI_RETURN_IF_ERROR(read_tool_choice(*choice, chat.tool_choice));
  if (const JsonValue* format = fields.take("response_format")) {
    if (chat.response_format.kind != ResponseFormat::Kind::text) {
      return invalid("response_format: given twice, here and in messages[0]");
    }
    DI_RETURN_IF_ERROR(read_response_format(*format, chat.response_format));
  }
  if (const JsonValue* thinking = fields.take("thinking")) {
    if (!thinking->is(Kind::boolean)) return fields.wrong("thinking", *thinking, "true or false");
    chat.thinking = thinking->boolean();
  }
  if (const JsonValue* effort = fields.take("reasoning_effort"))
    DI_RETURN_IF_ERROR(read_effort(*effort, chat.reasoning_effort));
  DI_RETURN_IF_ERROR(fields.read_integer("thinking_budget", out.thinking_budget));
  DI_RETURN_IF_ERROR(read_sampling(fields, out.sampling));
  DI_RETURN_IF_ERROR(fields.done("a request"));
  DI_RETURN_IF_ERROR(validate(out));
  return out;
}

}  // namespace deepinfer
