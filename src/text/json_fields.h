// Reading an object of a JSON document field by field, strictly: wrong types and unknown fields are errors with their path.
//
// Use       Fields fields(object, "messages[0]"); fields.read("role", role); ...; fields.done("a message")
// Ownership refers to the object and to the names it is given; both must outlive it. Threading: one object, one thread.
// Errors    invalid_argument: "messages[0].role: an integer where a string is expected"
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.h"
#include "base/status.h"
#include "text/json.h"

namespace deepinfer {

// One object being read: remembers which names were asked for, so that done() can name what is left over.
class Fields {
 public:
  // `path` names the object in messages; empty for the request itself.
  Fields(const JsonValue& object, std::string path) : object_(object), path_(std::move(path)) {}

  static Status expect_object(const JsonValue& value, const std::string& path) {
    if (value.is(JsonValue::Kind::object)) return {};
    return invalid("{}: {} where an object is expected", path, value.kind_name());
  }

  std::string at(std::string_view name) const {
    return path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name);
  }

  // The field's value; nullptr if absent or null.
  const JsonValue* take(std::string_view name) {
    known_.push_back(name);
    const JsonValue* value = object_.find(name);
    return value == nullptr || value->is(JsonValue::Kind::null) ? nullptr : value;
  }
  Status need(std::string_view name, const JsonValue*& out) {
    out = take(name);
    return out != nullptr ? Status() : invalid("{}: missing", at(name));
  }

  // The readers below leave `out` alone where the field is absent.
  Status read(std::string_view name, std::string& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(JsonValue::Kind::string)) return wrong(name, *value, "a string");
    out = value->string();
    return {};
  }
  Status read(std::string_view name, std::optional<std::string>& out) {
    std::string text;
    DI_RETURN_IF_ERROR(read(name, text));
    const JsonValue* value = object_.find(name);
    if (value != nullptr && value->is(JsonValue::Kind::string)) out = std::move(text);
    return {};
  }
  Status read(std::string_view name, bool& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(JsonValue::Kind::boolean)) return wrong(name, *value, "true or false");
    out = value->boolean();
    return {};
  }
  Status read(std::string_view name, double& out) {
    const JsonValue* value = take(name);
    if (value == nullptr) return {};
    if (!value->is(JsonValue::Kind::integer) && !value->is(JsonValue::Kind::real))
      return wrong(name, *value, "a number");
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
      const std::string found = value.is(JsonValue::Kind::integer) ? value.dump() : std::string(value.kind_name());
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
  if (!list.is(JsonValue::Kind::array)) return invalid("{}: {} where a list is expected", path, list.kind_name());
  for (size_t i = 0; i < list.items().size(); ++i)
    DI_RETURN_IF_ERROR(each(list.items()[i], fmt::format("{}[{}]", path, i)));
  return {};
}

}  // namespace deepinfer
