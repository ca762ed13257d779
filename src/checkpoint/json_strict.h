// JSON as files of a model directory hold it, read strictly: UTF-8, one document, no duplicate keys, bounded depth.
//
// For .cc files of this folder only (nlohmann/json.hpp is heavy). Errors name the file, the place and what was found
// there.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

inline constexpr int kMaxModelFileDepth = 16;

// `where` is the path for messages. `out` is assigned only on success.
Status parse_json_strict(std::string_view text, const std::string& where, nlohmann::json& out);

// A name from a file for a message: quoted, control characters and overlong tails made harmless.
std::string in_quotes(std::string_view name);

// A short rendering of a JSON value for a message.
std::string describe(const nlohmann::json& value);

// The parser's words on malformed text, without its exception number.
std::string json_complaint(const char* what);

}  // namespace deepinfer
