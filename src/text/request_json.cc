#include "text/request_json.h"

#include <charconv>
#include <limits>

#include "base/names.h"
#include "text/json.h"

namespace deepinfer {
namespace {

using Kind = JsonValue::Kind;

// One object being read: remembers which names were asked for, so that done() can name what is left over.
class Fields {
 public:
  // `path` names the object in messages; empty for the request itself.
  Fields(const JsonValue& object, std::string path) : object_(object), path_(std::move(path)) {}

  static Status expect_object(const JsonValue& value, const std::string& path) {
    if (value.is(Kind::object)) return {};
    return invalid("{}: {} where an object is expected", path, value.kind_name());
  }

  std::string at(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  // The field's value; nullptr if absent or null.
  const JsonValue* take(std::string_view name) {
    known_.push_back(name);
    const JsonValue* value = object_.find(name);
    return value == nullptr || value->is(Kind::null) ? nullptr : value;
  }
  Status need(std::string_view name, const JsonValue*& out) {
    out = take(name);
    return out != nullptr ? Status() : invalid("{}: missing", at(name));
  }

  // The readers below leave `out` alone where the field is absent.
  Status read(std::string_view name, std::string& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(Kind::string)) return wrong(name, *value, "a string");
    out = value->string();
    return {};
  }
  Status read(std::string_view name, std::optional<std::string>& out) {
    std::string text;
    DI_RETURN_IF_ERROR(read(name, text));
    const JsonValue* value = object_.find(name);
    if (value != nullptr && value->is(Kind::string)) out = std::move(text);
    return {};
  }
  Status read(std::string_view name, bool& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(Kind::boolean)) return wrong(name, *value, "true or false");
    out = value->boolean();
    return {};
  }
  Status read(std::string_view name, double& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(Kind::integer) && !value->is(Kind::real)) return wrong(name, *value, "a number");
    out = value->number();
    return {};
  }
  template <typename Int>
  Status read_integer(std::string_view name, Int& out) {
    const JsonValue* value = take(name);
    return value == nullptr ? Status() : integer(at(name), *value, out);
  }
  template <typename Int>
  Status read_integer(std::string_view name, std::optional<Int>& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    Int number = 0;
    DI_RETURN_IF_ERROR(integer(at(name), *value, number));
    out = number;
    return {};
  }
  template <typename Int>
  static Status integer(const std::string& path, const JsonValue& value, Int& out) {
    const std::optional<int64_t> number = value.as_int64();
    if (!number || *number < int64_t{std::numeric_limits<Int>::min()} ||
        *number > int64_t{std::numeric_limits<Int>::max()}) {
      const std::string found = value.is(Kind::integer) ? value.dump() : std::string(value.kind_name());
      return invalid("{}: {} where an integer of {} bits is expected", path, found, 8 * sizeof(Int));
    }
    out = static_cast<Int>(*number);
    return {};
  }

  Status wrong(std::string_view name, const JsonValue& value, std::string_view accepted) const {
    return invalid("{}: {} where {} is expected", at(name), value.kind_name(), accepted);
  }

  // An error for the first field that nobody asked for. `owner`: what has the fields, e.g. "a user message".
  Status done(std::string_view owner) const {
    for (const JsonValue::Member& member : object_.members()) {
      if (std::find(known_.begin(), known_.end(), member.key) != known_.end()) continue;
      return invalid("{}: not a field of {}; the nearest is '{}'", at(member.key), owner,
                     nearest_name(member.key, known_));
    }
    return {};
  }

 private:
  const JsonValue& object_;
  const std::string path_;
  std::vector<std::string_view> known_;
};

// Calls each(item, path) for the items of a list.
template <typename Each>
Status for_items(const std::string& path, const JsonValue& list, Each each) {
  if (!list.is(Kind::array)) return invalid("{}: {} where a list is expected", path, list.kind_name());
  for (size_t i = 0; i < list.items().size(); ++i)
    DI_RETURN_IF_ERROR(each(list.items()[i], fmt::format("{}[{}]", path, i)));
  return {};
}

Status read_ids(const std::string& path, const JsonValue& list, std::vector<int32_t>& out) {
  out.clear();
  return for_items(path, list, [&](const JsonValue& item, const std::string& at) {
    return Fields::integer(at, item, out.emplace_back());
  });
}

// Text, or a list of text parts, which are joined by a blank line.
Status read_content(const std::string& path, const JsonValue& value, std::string& out) {
  if (value.is(Kind::string)) {
    out = value.string();
    return {};
  }
  if (!value.is(Kind::array))
    return invalid("{}: {} where a string or a list of parts is expected", path, value.kind_name());
  bool first = true;
  return for_items(path, value, [&](const JsonValue& part, const std::string& at) -> Status {
    DI_RETURN_IF_ERROR(Fields::expect_object(part, at));
    Fields fields(part, at);
    std::string type, text;
    DI_RETURN_IF_ERROR(fields.read("type", type));
    if (type == "image_url" || type == "image" || type == "input_image") {
      return error(Code::unsupported, "{}.type: '{}': image input is not supported, only text", at, type);
    }
    if (type != "text") return invalid("{}.type: '{}' where 'text' is expected", at, type);
    const JsonValue* value = nullptr;
    DI_RETURN_IF_ERROR(fields.need("text", value));
    DI_RETURN_IF_ERROR(fields.read("text", text));
    if (!first) out += "\n\n";
    first = false;
    out += text;
    return fields.done("a text part");
  });
}

// {"type": "function", "function": {...}}: gives the inner object.
Status read_function(const JsonValue& item, const std::string& path, const char* owner, std::string* id,
                     const JsonValue*& function) {
  DI_RETURN_IF_ERROR(Fields::expect_object(item, path));
  Fields fields(item, path);
  std::string type = "function";
  if (id != nullptr) DI_RETURN_IF_ERROR(fields.read("id", *id));
  DI_RETURN_IF_ERROR(fields.read("type", type));
  if (type != "function") return invalid("{}.type: '{}' where 'function' is expected", path, type);
  DI_RETURN_IF_ERROR(fields.need("function", function));
  DI_RETURN_IF_ERROR(Fields::expect_object(*function, path + ".function"));
  return fields.done(owner);
}

Status read_tools(const std::string& path, const JsonValue& list, std::vector<Tool>& out) {
  return for_items(path, list, [&](const JsonValue& item, const std::string& at) -> Status {
    const JsonValue* function = nullptr;
    DI_RETURN_IF_ERROR(read_function(item, at, "a tool", nullptr, function));
    Fields fields(*function, at + ".function");
    Tool& tool = out.emplace_back();
    const JsonValue* name = nullptr;
    DI_RETURN_IF_ERROR(fields.need("name", name));
    DI_RETURN_IF_ERROR(fields.read("name", tool.name));
    DI_RETURN_IF_ERROR(fields.read("description", tool.description));
    if (const JsonValue* schema = fields.take("parameters")) {
      if (!schema->is(Kind::object)) return fields.wrong("parameters", *schema, "an object");
      tool.parameters = schema->dump();
    }
    DI_RETURN_IF_ERROR(fields.read("strict", tool.strict));
    return fields.done("a function");
  });
}

Status read_calls(const std::string& path, const JsonValue& list, std::vector<ToolCall>& out) {
  return for_items(path, list, [&](const JsonValue& item, const std::string& at) -> Status {
    ToolCall& call = out.emplace_back();
    const JsonValue* function = nullptr;
    DI_RETURN_IF_ERROR(read_function(item, at, "a call", &call.id, function));
    Fields fields(*function, at + ".function");
    const JsonValue* needed = nullptr;
    DI_RETURN_IF_ERROR(fields.need("name", needed));
    DI_RETURN_IF_ERROR(fields.read("name", call.name));
    DI_RETURN_IF_ERROR(fields.need("arguments", needed));
    DI_RETURN_IF_ERROR(fields.read("arguments", call.arguments));
    return fields.done("a call's function");
  });
}

Status read_message(const JsonValue& item, const std::string& at, Message& out) {
  DI_RETURN_IF_ERROR(Fields::expect_object(item, at));
  Fields fields(item, at);
  const JsonValue* role = nullptr;
  DI_RETURN_IF_ERROR(fields.need("role", role));
  std::string name;
  DI_RETURN_IF_ERROR(fields.read("role", name));
  if (name == "developer") name = "system";
  bool found = false;
  for (const Role known : {Role::system, Role::user, Role::assistant, Role::tool, Role::latest_reminder}) {
    if (name == role_name(known)) out.role = known, found = true;
  }
  if (!found)
    return invalid("{}.role: '{}'; accepted are system, developer, user, assistant, tool, latest_reminder", at, name);

  const JsonValue* content = fields.take("content");
  if (content != nullptr) DI_RETURN_IF_ERROR(read_content(at + ".content", *content, out.content));
  DI_RETURN_IF_ERROR(fields.read("name", out.name));
  if (out.role == Role::system) {
    if (const JsonValue* tools = fields.take("tools")) DI_RETURN_IF_ERROR(read_tools(at + ".tools", *tools, out.tools));
  } else if (out.role == Role::assistant) {
    DI_RETURN_IF_ERROR(fields.read("reasoning_content", out.reasoning_content));
    if (const JsonValue* calls = fields.take("tool_calls"))
      DI_RETURN_IF_ERROR(read_calls(at + ".tool_calls", *calls, out.tool_calls));
    DI_RETURN_IF_ERROR(fields.read("prefix", out.prefix));
  } else if (out.role == Role::tool) {
    DI_RETURN_IF_ERROR(fields.read("tool_call_id", out.tool_call_id));
  }
  const bool may_be_without = out.role == Role::assistant && (!out.tool_calls.empty() || out.prefix);
  if (content == nullptr && !may_be_without) return invalid("{}.content: missing", at);
  return fields.done(fmt::format("a message of role {}", role_name(out.role)));
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
      return read_message(item, at, chat.messages.emplace_back());
    }));
    if (chat.messages.empty()) return invalid("messages: the list is empty");
  }
  DI_RETURN_IF_ERROR(fields.read("prompt", out.prompt));
  if (const JsonValue* ids = fields.take("prompt_token_ids")) {
    DI_RETURN_IF_ERROR(read_ids("prompt_token_ids", *ids, out.prompt_token_ids.emplace()));
  }
  if (const JsonValue* tools = fields.take("tools")) DI_RETURN_IF_ERROR(read_tools("tools", *tools, chat.tools));
  if (const JsonValue* choice = fields.take("tool_choice"))
    DI_RETURN_IF_ERROR(read_tool_choice(*choice, chat.tool_choice));
  if (const JsonValue* format = fields.take("response_format"))
    DI_RETURN_IF_ERROR(read_response_format(*format, chat.response_format));
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
