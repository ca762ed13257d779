// The parts of a request object that a conversation is made of: messages, tools, the named function of tool_choice.
//
// Threading: pure. Errors: as in request_json.h, with the path `at` in front.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "deepinfer/request.h"
#include "text/json.h"

namespace deepinfer {

// `format`: where the response_format of a first system message goes; nullptr for the messages after it.
Status read_message(const JsonValue& item, const std::string& at, Message& out, ResponseFormat* format);

// Appends the tools of a list.
Status read_tools(const std::string& at, const JsonValue& list, std::vector<Tool>& out);

// {"type": "function", "function": {...}}: gives the inner object. `id`, if given, receives the field of that name; `owner`
// says in messages what this is.
Status read_function(const JsonValue& item, const std::string& at, const char* owner, std::string* id,
                     const JsonValue*& function);

}  // namespace deepinfer
