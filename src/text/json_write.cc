// Printing of JSON as prompts need it; json.h has the rules.
#include <charconv>
#include <iterator>

#include "text/json.h"

namespace deepinfer {

std::string JsonValue::dump() const {
  std::string out;
  dump_to(out);
  return out;
}

void JsonValue::dump_to(std::string& out) const {
  switch (kind_) {
    case Kind::null:
      out += "null";
      return;
    case Kind::boolean:
      out += magnitude_ != 0 ? "true" : "false";
      return;
    case Kind::integer:
      fmt::format_to(std::back_inserter(out), "{}{}", negative_ ? "-" : "", magnitude_);
      return;
    case Kind::real:
      append_json_number(out, real_);
      return;
    case Kind::string:
      append_json_string(out, text_);
      return;
    case Kind::array:
      out += '[';
      for (size_t i = 0; i < items_.size(); ++i) {
        if (i > 0) out += ", ";
        items_[i].dump_to(out);
      }
      out += ']';
      return;
    case Kind::object:
      out += '{';
      for (size_t i = 0; i < members_.size(); ++i) {
        if (i > 0) out += ", ";
        append_json_string(out, members_[i].key);
        out += ": ";
        members_[i].value.dump_to(out);
      }
      out += '}';
      return;
  }
}

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kNames = "\"\\bfnrt", kValues = "\"\\\b\f\n\r\t";
  out += '"';
  for (const char c : text) {
    if (const size_t name = kValues.find(c); name != std::string_view::npos) {
      out += '\\';
      out += kNames[name];
    } else if (static_cast<unsigned char>(c) < 0x20) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_json_number(std::string& out, double value) {
  char buffer[32];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  if (text.front() == '-') {
    out += '-';
    text.remove_prefix(1);
  }
  const size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(), exponent);
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) (out += '.') += std::string_view(digits).substr(1);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+', exponent < 0 ? -exponent : exponent);
  } else if (exponent < 0) {
    out += "0.";
    out.append(static_cast<size_t>(-exponent - 1), '0');
    out += digits;
  } else {
    const int whole = exponent + 1;
    if (count <= whole) {
      out += digits;
      out.append(static_cast<size_t>(whole - count), '0');
      out += ".0";
    } else {
      out.append(digits, 0, static_cast<size_t>(whole));
      out += '.';
      out.append(digits, static_cast<size_t>(whole), std::string::npos);
    }
  }
}

}  // namespace deepinfer
