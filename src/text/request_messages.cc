#include "text/request_messages.h"

#include "text/json_fields.h"

namespace deepinfer {
namespace {

using Kind = JsonValue::Kind;

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

// What prompts of the release's own encoder carry in a first system message (the bundled evaluation tasks do): the schema of
// the answer itself, or {"type": "json_object"}.
Status read_release_format(const JsonValue& value, const std::string& at, ResponseFormat& out) {
  DI_RETURN_IF_ERROR(Fields::expect_object(value, at));
  const JsonValue* type = value.find("type");
  const bool any = value.members().size() == 1 && type != nullptr && type->string() == "json_object";
  out.kind = any ? ResponseFormat::Kind::json_object : ResponseFormat::Kind::json_schema;
  if (!any) out.schema = value.dump();
  return {};
}

}  // namespace

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

Status read_message(const JsonValue& item, const std::string& at, Message& out, ResponseFormat* format) {
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
    const JsonValue* release_format = format == nullptr ? nullptr : fields.take("response_format");
    if (release_format != nullptr) {
      DI_RETURN_IF_ERROR(read_release_format(*release_format, at + ".response_format", *format));
    }
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

}  // namespace deepinfer
