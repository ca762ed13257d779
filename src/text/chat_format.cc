#include "deepinfer/chat_format.h"

#include <algorithm>
#include <span>
#include <unordered_map>

#include "text/json.h"

namespace deepinfer {
namespace {

constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
constexpr std::string_view kSystem = "<｜System｜>";
constexpr std::string_view kUser = "<｜User｜>";
constexpr std::string_view kAssistant = "<｜Assistant｜>";
constexpr std::string_view kReminder = "<｜latest_reminder｜>";
constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kDsml = "｜DSML｜";
// Stands for the DSML bar in the fixed texts below: a control token there, unlike in anything that a user wrote.
constexpr char kBar = '\x01';

constexpr std::string_view kCallsBegin = "<\x01 calls>\n";
constexpr std::string_view kCallsEnd = "\n</\x01 calls>";

// The part of the tools section before the schemas. Its wording is part of the format: the model was trained on these
// bytes.
constexpr std::string_view kToolsIntroduction =
    "\n\n## Tools\n\n"
    "You have access to a set of tools to help answer the user's question. You can invoke tools by writing a \"<\x01 "
    "calls>\" block "
    "like the following:\n\n"
    "<\x01 calls>\n<\x01 invoke name=\"$TOOL_NAME\">\n"
    "<\x01 parameter name=\"$PARAMETER_NAME\" string=\"true|false\">$PARAMETER_VALUE</\x01 parameter>\n...\n</\x01 "
    "invoke>\n"
    "<\x01 invoke name=\"$TOOL_NAME2\">\n...\n</\x01 invoke>\n</\x01 calls>\n\n"
    "String parameters should be specified as is and set `string=\"true\"`. For all other types (numbers, booleans, "
    "arrays, objects), "
    "pass the value in JSON format and set `string=\"false\"`.\n\n";
constexpr std::string_view kToolsEnd =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";
constexpr std::string_view kFormatIntroduction =
    "\n\n## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n";

bool is_user_side(const Message& message) { return message.role == Role::user || message.role == Role::tool; }

class Renderer {
 public:
  explicit Renderer(const Conversation& conversation) : in_(conversation), thinks_(conversation.thinks()) {
    if (in_.tool_choice.kind != ToolChoice::Kind::none) {
      for (const Tool& tool : in_.tools) {
        if (in_.tool_choice.kind != ToolChoice::Kind::named || tool.name == in_.tool_choice.name)
          tools_.push_back(&tool);
      }
    }
  }

  Result<RenderedPrompt> run() {
    const ToolChoice::Kind choice = in_.tool_choice.kind;
    if (choice == ToolChoice::Kind::named && tools_.empty() && !in_.tools.empty()) {
      return invalid("tool_choice: no tool is named '{}'", in_.tool_choice.name);
    }
    const ResponseFormat::Kind format = in_.response_format.kind;
    const bool has_format_section =
        format == ResponseFormat::Kind::json_object || format == ResponseFormat::Kind::json_schema;

    // Tools and format belong to a system message; a conversation that begins otherwise gets an empty one.
    std::vector<const Message*> messages = in_order_of_calls();
    static const Message kEmptySystem{.role = Role::system};
    const bool begins_with_system = !messages.empty() && messages.front()->role == Role::system;
    if ((!tools_.empty() || has_format_section) && !begins_with_system)
      messages.insert(messages.begin(), &kEmptySystem);

    special(kBos);
    for (size_t i = 0; i < messages.size(); ++i) {
      const Message& message = *messages[i];
      if (i == 0 && (thinks_ || message.role == Role::system)) special(kSystem);
      if (i == 0 && thinks_) {
        text(
            fmt::format("Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
                        in_.effort()));
      }
      switch (message.role) {
        case Role::system:
          if (i > 0) special(kSystem);
          text(message.content);
          if (i == 0) DI_RETURN_IF_ERROR(sections(has_format_section));
          if (!message.tools.empty()) {
            text("\n\n### Updated Tool Schemas\n\n");
            std::vector<const Tool*> tools;
            for (const Tool& tool : message.tools) tools.push_back(&tool);
            DI_RETURN_IF_ERROR(tool_lines(tools));
          }
          break;
        case Role::user:
        case Role::tool:
          if (i > 0 && is_user_side(*messages[i - 1])) {
            text("\n\n");
          } else {
            special(kUser);
          }
          if (message.role == Role::tool) text("<tool_result>");
          text(message.content);
          if (message.role == Role::tool) text("</tool_result>");
          break;
        case Role::latest_reminder:
          // Of reminders in a row the library prints the first only; its bytes are the format.
          if (i > 0 && messages[i - 1]->role == Role::latest_reminder) break;
          special(kReminder);
          text(message.content);
          break;
        case Role::assistant:
          assistant(message, i == 0);
          break;
      }
    }
    if (messages.empty() || messages.back()->role != Role::assistant || !messages.back()->prefix) {
      special(kAssistant);
      special(thinks_ ? kThink : kEndThink);
      out_.answer_start = thinks_ ? AnswerStart::reasoning : AnswerStart::content;
    }
    // A forced call can be opened in the prompt only where no reasoning is to come first; else the constraint opens it
    // later.
    const bool forced = choice == ToolChoice::Kind::required || choice == ToolChoice::Kind::named;
    if (forced && !tools_.empty() && !thinks_) {
      text("\n\n");
      marked(kCallsBegin);
      out_.answer_start = AnswerStart::tool_calls;
    }
    if (const size_t bad = find_invalid_utf8(out_.text); bad != std::string::npos) {
      return invalid("messages: the text is not valid UTF-8 (byte {} of the prompt)", bad);
    }
    return std::move(out_);
  }

 private:
  void text(std::string_view plain) { out_.text += plain; }
  void special(std::string_view token) {
    out_.special_ranges.push_back({out_.text.size(), out_.text.size() + token.size()});
    out_.text += token;
  }
  // A fixed text in which kBar stands for the DSML token.
  void marked(std::string_view fixed) {
    for (size_t bar = fixed.find(kBar); bar != std::string_view::npos; bar = fixed.find(kBar)) {
      text(fixed.substr(0, bar));
      special(kDsml);
      fixed.remove_prefix(bar + 1);
    }
    text(fixed);
  }

  // Tool results that carry an id stand in the order of the calls of the last assistant message that made any; an
  // unknown id counts as the first call. Other messages keep their places.
  std::vector<const Message*> in_order_of_calls() const {
    std::vector<const Message*> order;
    std::unordered_map<std::string_view, size_t> rank;
    const auto rank_of = [&](const Message* message) {
      const auto found = rank.find(*message->tool_call_id);
      return found == rank.end() ? size_t{0} : found->second;
    };
    const std::vector<Message>& all = in_.messages;
    for (size_t begin = 0; begin < all.size();) {
      if (all[begin].role == Role::assistant && !all[begin].tool_calls.empty()) {
        rank.clear();
        for (const ToolCall& call : all[begin].tool_calls) rank.emplace(call.id, rank.size());
      }
      size_t end = begin;
      while (end < all.size() && is_user_side(all[end])) ++end;
      std::vector<const Message*> results;
      for (size_t i = begin; i < end; ++i) {
        if (all[i].tool_call_id) results.push_back(&all[i]);
      }
      std::stable_sort(results.begin(), results.end(), [&](auto* a, auto* b) { return rank_of(a) < rank_of(b); });
      auto next = results.begin();
      end = std::max(end, begin + 1);
      for (; begin < end; ++begin)
        order.push_back(is_user_side(all[begin]) && all[begin].tool_call_id ? *next++ : &all[begin]);
    }
    return order;
  }

  Status tool_lines(std::span<const Tool* const> tools) {
    for (size_t i = 0; i < tools.size(); ++i) {
      const Tool& tool = *tools[i];
      std::string line = i > 0 ? "\n{\"name\": " : "{\"name\": ";
      append_json_string(line, tool.name);
      line += ", \"description\": ";
      append_json_string(line, tool.description.value_or(""));
      line += ", \"parameters\": ";
      DI_RETURN_IF_ERROR(append_canonical(line, tool.parameters.empty() ? "null" : tool.parameters,
                                          "parameters of tool " + tool.name));
      text(line += "}");
    }
    return {};
  }
  static Status append_canonical(std::string& out, std::string_view json, const std::string& what) {
    const Result<JsonValue> parsed = JsonValue::parse(json);
    if (!parsed.ok()) return invalid("{}: {}", what, parsed.status().message());
    parsed->dump_to(out);
    return {};
  }

  Status sections(bool has_format_section) {
    if (!tools_.empty()) {
      marked(kToolsIntroduction);
      text("If thinking_mode is enabled (triggered by ");
      special(kThink);
      text("), you MUST output your complete reasoning inside ");
      special(kThink);
      text("...");
      special(kEndThink);
      text(" BEFORE any tool calls or final response.\n\nOtherwise, output directly after ");
      special(kEndThink);
      text(" with tool calls or final response.\n\n### Available Tool Schemas\n\n");
      DI_RETURN_IF_ERROR(tool_lines(tools_));
      text(kToolsEnd);
    }
    if (has_format_section) {
      text(kFormatIntroduction);
      std::string schema;
      const bool any = in_.response_format.kind == ResponseFormat::Kind::json_object;
      DI_RETURN_IF_ERROR(append_canonical(schema, any ? "{\"type\": \"json_object\"}" : in_.response_format.schema,
                                          "response_format.schema"));
      text(schema);
    }
    return {};
  }

  // Reasoning of earlier answers is shown only when tools are declared, and that of a prefix message always, except
  // where it would be the very first message.
  void assistant(const Message& message, bool first) {
    special(kAssistant);
    const std::string reasoning = message.reasoning_content.value_or("");
    out_.answer_start = AnswerStart::continued_content;
    if (thinks_ && (!tools_.empty() || (message.prefix && !first))) {
      special(kThink);
      text(reasoning);
      if (message.prefix && message.content.empty()) {
        out_.answer_start = reasoning.empty() ? AnswerStart::reasoning : AnswerStart::continued_reasoning;
      } else {
        special(kEndThink);
      }
    } else {
      special(kEndThink);
    }
    text(message.content);
    if (!message.tool_calls.empty()) calls(message.tool_calls);
    if (!message.prefix) special(kEos);
  }

  void calls(const std::vector<ToolCall>& calls) {
    text("\n\n");
    marked(kCallsBegin);
    for (size_t i = 0; i < calls.size(); ++i) {
      marked(i > 0 ? "\n<\x01 invoke name=\"" : "<\x01 invoke name=\"");
      text(calls[i].name);
      text("\">\n");
      const Result<JsonValue> arguments = JsonValue::parse(calls[i].arguments);
      if (!arguments.ok() || !arguments->is(JsonValue::Kind::object)) {
        parameter("arguments", true, calls[i].arguments);
      } else {
        bool separate = false;
        for (const JsonValue::Member& member : arguments->members()) {
          if (separate) text("\n");
          separate = true;
          const bool is_string = member.value.is(JsonValue::Kind::string);
          parameter(member.key, is_string, is_string ? member.value.string() : member.value.dump());
        }
      }
      marked("\n</\x01 invoke>");
    }
    marked(kCallsEnd);
  }
  void parameter(std::string_view name, bool is_string, std::string_view value) {
    marked("<\x01 parameter name=\"");
    text(name);
    text(is_string ? "\" string=\"true\">" : "\" string=\"false\">");
    text(value);
    marked("</\x01 parameter>");
  }

  const Conversation& in_;
  const bool thinks_;
  std::vector<const Tool*> tools_;  // those that the prompt declares at its start
  RenderedPrompt out_;
};

}  // namespace

Result<RenderedPrompt> ChatFormat::render(const Conversation& conversation) { return Renderer(conversation).run(); }

}  // namespace deepinfer
