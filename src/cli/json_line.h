// JsonLine: one JSON object on one line, fields in the order in which they are added. Floats are written as the shortest text that reads back
// to the same float32 or float64; broken UTF-8 becomes U+FFFD.
#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

// A JSON string with its quotes.
std::string quoted_json(std::string_view text);

inline std::string json_value(std::string_view text) { return quoted_json(text); }
inline std::string json_value(const char* text) { return quoted_json(text); }
inline std::string json_value(bool value) { return value ? "true" : "false"; }
template <typename T>
requires std::is_integral_v<T> std::string json_value(T value) { return fmt::format("{}", value); }
template <typename T>
requires std::is_floating_point_v<T> std::string json_value(T value) {
  if (!std::isfinite(value)) return "null";
  std::string text = fmt::format("{}", value);
  return text;
}
template <typename T>
std::string json_list(const T& values) {
  std::string text = "[";
  for (const auto& value : values) {
    if (text.size() > 1) text += ',';
    text += json_value(value);
  }
  return text + "]";
}

class JsonLine {
 public:
  template <typename T>
  JsonLine& add(std::string_view key, const T& value) {
    return raw(key, json_value(value));
  }
  // `json` is put in as it is.
  JsonLine& raw(std::string_view key, std::string_view json) {
    text_ += text_.empty() ? "{" : ",";
    text_ += quoted_json(key);
    text_ += ':';
    text_ += json;
    return *this;
  }
  std::string str() const { return text_.empty() ? "{}" : text_ + "}"; }

 private:
  std::string text_;
};

}  // namespace deepinfer
