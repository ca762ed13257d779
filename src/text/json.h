// JSON documents for requests and prompts: key order is kept, and printing gives the bytes that prompts need.
//
// Reading   RFC 8259, strictly: valid UTF-8, no lone surrogate escape, no text after the document, bounded nesting.
//           A repeated key keeps its first place and its last value. Integers that fit 64 bits (signed or unsigned)
//           stay integers; longer ones, "-0", and whatever has a point or an exponent become doubles (correctly
//           rounded; one that overflows is an error, one that underflows is zero).
// Printing  `", "` and `": "` between items, non-ASCII as it is, escapes \" \\ \b \f \n \r \t and \u00xx, doubles as
//           the shortest digits that read back, with ".0" for whole numbers and an exponent ("1e+16", "1e-05") outside
//           1e-4 .. 1e16.
// Ownership values; a document owns all of itself. Threading: immutable after reading.
// Errors    invalid_argument with the byte offset and what was expected there. No input can do worse.
// Source    golden/chat and golden/protocol (protocols.md sections 1 and 4: what the library prints).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

// One value of a document. Accessors for another kind than kind() return empty values.
class JsonValue {
 public:
  static constexpr int kMaxDepth = 127;  // lists and objects within each other

  enum class Kind : uint8_t { null, boolean, integer, real, string, array, object };
  struct Member;

  static Result<JsonValue> parse(std::string_view text);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  // "null", "a boolean", "an integer", "a number", "a string", "a list", "an object": for messages.
  std::string_view kind_name() const;

  bool boolean() const { return kind_ == Kind::boolean && magnitude_ != 0; }
  double number() const;  // integer or real
  // The integer if it is one and fits.
  std::optional<int64_t> as_int64() const;
  std::optional<uint64_t> as_uint64() const;
  const std::string& string() const { return text_; }
  const std::vector<JsonValue>& items() const { return items_; }
  const std::vector<Member>& members() const { return members_; }
  // The member's value, or nullptr. Linear: for objects with few members.
  const JsonValue* find(std::string_view key) const;

  // The document as one line of text.
  std::string dump() const;
  void dump_to(std::string& out) const;

 private:
  friend class JsonReader;

  Kind kind_ = Kind::null;
  bool negative_ = false;   // integer
  uint64_t magnitude_ = 0;  // integer: |value|; boolean: 0 or 1
  double real_ = 0;
  std::string text_;
  std::vector<JsonValue> items_;
  std::vector<Member> members_;
};

struct JsonValue::Member {
  std::string key;
  JsonValue value;
};

// Appends `text` as a JSON string, quotes included. `text` is UTF-8.
void append_json_string(std::string& out, std::string_view text);
// Appends a finite double as described under "Printing".
void append_json_number(std::string& out, double value);

// Byte offset of the first byte that is not part of valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace deepinfer
