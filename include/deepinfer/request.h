// Request: what one generation is asked to do. A conversation (or a raw prompt, or token ids), tools, the wanted format
// of the answer, thinking, and sampling. The same fields as the request object of `deepinfer run --messages` and
// `--input` (docs/requests.md); read_request() in the program reads them from JSON.
//
// Strings are UTF-8. Schemas are carried as JSON text; prompts print them in one line with ", " and ": " separators.
// Ownership: plain values. Threading: none. Errors: validate() and supported_now() name the field.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deepinfer/sampling_params.h"
#include "deepinfer/status.h"

namespace deepinfer {

// Who speaks. A `developer` of the wire protocols is a system message.
enum class Role { system, user, assistant, tool, latest_reminder };

// "system", "user", "assistant", "tool" or "latest_reminder".
const char* role_name(Role role);

// A call that an assistant message made.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // as the model's answer gave them; normally a JSON object, anything is accepted
};

// A function that the model may call.
struct Tool {
  std::string name;
  std::optional<std::string> description;
  std::string parameters;  // JSON Schema text; empty = not declared (printed as null)
  bool strict = false;     // arguments must satisfy `parameters`
};

// One message of a conversation.
struct Message {
  Role role = Role::user;
  std::string content;
  std::optional<std::string> reasoning_content;  // assistant
  std::vector<ToolCall> tool_calls;              // assistant
  std::optional<std::string> tool_call_id;       // tool: the call it answers
  std::string name;                              // of the speaker; not part of the prompt
  bool prefix = false;                           // assistant, last message: continue this text instead of a new answer
  std::vector<Tool> tools;                       // system: tools declared from here on
};

// May the model call tools, and must it?
struct ToolChoice {
  enum class Kind { automatic, none, required, named };
  Kind kind = Kind::automatic;
  std::string name;  // named
};

// What the answer must look like.
struct ResponseFormat {
  enum class Kind { text, json_object, json_schema, regex, ebnf };
  Kind kind = Kind::text;
  std::string schema;       // json_schema: JSON text; regex, ebnf: the expression or grammar
  std::string name;         // json_schema: a label, not part of the prompt
  std::string description;  // json_schema: a label, not part of the prompt
  bool strict = false;
};

// How thoroughly to think, as the prompt states it: 1..100.
inline constexpr int kDefaultReasoningEffort = 75;

// The level of an effort name: minimal, low 50; medium, high, xhigh 75; max, ultra 100; none 0. nullopt: not a name.
std::optional<int> reasoning_effort_level(const std::string& name);

// Everything that the prompt of a chat is made from.
struct Conversation {
  std::vector<Message> messages;
  std::vector<Tool> tools;
  ToolChoice tool_choice;
  ResponseFormat response_format;
  std::optional<bool> thinking;         // absent: on exactly if an effort other than none is given
  std::optional<int> reasoning_effort;  // 0 (none) or 1..100; absent: kDefaultReasoningEffort

  // Thinking after the rules above.
  bool thinks() const { return thinking.value_or(reasoning_effort.value_or(0) > 0); }
  // 1..100, the level that the effort line states when thinks() holds.
  int effort() const {
    const int level = reasoning_effort.value_or(0);
    return level > 0 ? level : kDefaultReasoningEffort;
  }
};

// One generation. Exactly one of conversation.messages, prompt and prompt_token_ids is given.
struct Request {
  std::string id;
  Conversation conversation;
  std::optional<std::string> prompt;                     // raw text; spelled control tokens are control tokens
  std::optional<std::vector<int32_t>> prompt_token_ids;  // used as they are
  SamplingParams sampling;
  std::optional<int64_t> thinking_budget;  // most tokens of reasoning, at least 1
};

// ok, or invalid_argument naming the first field that contradicts another or is out of range.
Status validate(const Request& request);

// ok, or unsupported naming the first field of a valid request that this version does not execute, so that nothing is
// ignored.
Status supported_now(const Request& request);

}  // namespace deepinfer
