#include "text/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace deepinfer {
namespace {

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Decimal exponent of the leading non-zero digit of a number in JSON grammar; tells overflow from underflow. The
// written exponent saturates long before it could wrap.
int64_t leading_exponent(std::string_view number) {
  int64_t place = 0, exponent = 0;
  bool point = false, seen = false;
  size_t i = number.front() == '-' ? 1 : 0;
  for (; i < number.size() && number[i] != 'e' && number[i] != 'E'; ++i) {
    if (number[i] == '.') {
      point = true;
    } else if (!seen && number[i] == '0') {
      if (point) --place;
    } else {
      if (!seen && point) --place;
      if (seen && !point) ++place;
      seen = true;
    }
  }
  if (!seen) return INT64_MIN;
  if (i < number.size()) {
    const bool negative = number[i + 1] == '-';
    for (const char c : number.substr(i + 1)) {
      if (is_digit(c) && exponent < int64_t{1} << 48) exponent = exponent * 10 + (c - '0');
    }
    if (negative) exponent = -exponent;
  }
  return place + exponent;
}

}  // namespace

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Result<JsonValue> document() {
    if (const size_t bad = find_invalid_utf8(text_); bad != std::string_view::npos) {
      return invalid("JSON: byte {}: not valid UTF-8 (0x{:02x})", bad, static_cast<unsigned char>(text_[bad]));
    }
    JsonValue root;
    DI_RETURN_IF_ERROR(value(root, 0));
    skip_blanks();
    if (at_ < text_.size()) return expected("the end of the document");
    return root;
  }

 private:
  Status expected(std::string_view what) const {
    if (at_ >= text_.size()) return invalid("JSON: byte {}: the text ends where {} is expected", at_, what);
    const auto c = static_cast<unsigned char>(text_[at_]);
    if (c > 0x20 && c < 0x7F) return invalid("JSON: byte {}: '{}' where {} is expected", at_, text_[at_], what);
    return invalid("JSON: byte {}: 0x{:02x} where {} is expected", at_, c, what);
  }
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  bool take(char c) {
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool take_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  Status value(JsonValue& out, int depth) {
    skip_blanks();
    if (at_ >= text_.size()) return expected("a value");
    const char c = text_[at_];
    if (c == '{' || c == '[') {
      if (depth >= JsonValue::kMaxDepth)
        return invalid("JSON: byte {}: nested deeper than {}", at_, JsonValue::kMaxDepth);
      return c == '{' ? object(out, depth + 1) : array(out, depth + 1);
    }
    if (c == '"') {
      out.kind_ = JsonValue::Kind::string;
      return string(out.text_);
    }
    if (c == '-' || is_digit(c)) return number(out);
    if (take_word("null")) return {};
    if (take_word("true") || take_word("false")) {
      out.kind_ = JsonValue::Kind::boolean;
      out.magnitude_ = text_[at_ - 2] == 'u';
      return {};
    }
    return expected("a value");
  }

  Status array(JsonValue& out, int depth) {
    out.kind_ = JsonValue::Kind::array;
    ++at_;
    skip_blanks();
    if (take(']')) return {};
    for (;;) {
      DI_RETURN_IF_ERROR(value(out.items_.emplace_back(), depth));
      skip_blanks();
      if (take(']')) return {};
      if (!take(',')) return expected("',' or ']'");
    }
  }

  Status object(JsonValue& out, int depth) {
    out.kind_ = JsonValue::Kind::object;
    ++at_;
    skip_blanks();
    if (take('}')) return {};
    for (;;) {
      skip_blanks();
      if (at_ >= text_.size() || text_[at_] != '"') return expected("a key");
      JsonValue::Member& member = out.members_.emplace_back();
      DI_RETURN_IF_ERROR(string(member.key));
      skip_blanks();
      if (!take(':')) return expected("':'");
      DI_RETURN_IF_ERROR(value(member.value, depth));
      skip_blanks();
      if (take('}')) break;
      if (!take(',')) return expected("',' or '}'");
    }
    merge_repeated_keys(out.members_);
    return {};
  }

  // Sorting makes this n log n: an object with a million keys must not take a million squared steps.
  static void merge_repeated_keys(std::vector<JsonValue::Member>& members) {
    if (members.size() < 2) return;
    std::vector<size_t> order(members.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return members[a].key < members[b].key; });
    std::vector<bool> drop(members.size());
    bool any = false;
    for (size_t i = 0; i < order.size();) {
      size_t end = i + 1;
      while (end < order.size() && members[order[end]].key == members[order[i]].key) ++end;
      if (end - i > 1) {
        any = true;
        members[order[i]].value = std::move(members[order[end - 1]].value);
        for (size_t j = i + 1; j < end; ++j) drop[order[j]] = true;
      }
      i = end;
    }
    if (!any) return;
    size_t kept = 0;
    for (size_t i = 0; i < members.size(); ++i) {
      if (drop[i]) continue;
      if (kept != i) members[kept] = std::move(members[i]);
      ++kept;
    }
    members.resize(kept);
  }

  Status hex4(uint32_t& out) {
    out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char c = at_ < text_.size() ? text_[at_] : '\0';
      const int digit = is_digit(c)            ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return expected("a hexadecimal digit");
      out = out << 4 | static_cast<uint32_t>(digit);
    }
    return {};
  }

  Status string(std::string& out) {
    ++at_;
    for (;;) {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      out.append(text_.substr(begin, at_ - begin));
      if (take('"')) return {};
      if (!take('\\')) return expected("a character of a string or '\"'");
      if (at_ >= text_.size()) return expected("an escape");
      const char c = text_[at_];
      constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
      if (const size_t name = kNames.find(c); name != std::string_view::npos) {
        out += kValues[name];
        ++at_;
        continue;
      }
      if (c != 'u') return expected("an escape");
      const size_t escape = at_ - 1;
      ++at_;
      uint32_t unit = 0, low = 0;
      DI_RETURN_IF_ERROR(hex4(unit));
      if (unit >= 0xD800 && unit < 0xDC00 && take_word("\\u")) {
        DI_RETURN_IF_ERROR(hex4(low));
        if (low < 0xDC00 || low > 0xDFFF) return lone_surrogate(escape);
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
      } else if (unit >= 0xD800 && unit < 0xE000) {
        return lone_surrogate(escape);
      }
      append_utf8(out, unit);
    }
  }
  static Status lone_surrogate(size_t at) {
    return invalid("JSON: byte {}: a \\u escape of half a surrogate pair is no character", at);
  }

  Status number(JsonValue& out) {
    const size_t begin = at_;
    const bool negative = take('-');
    const size_t digits = at_;
    if (!take('0')) {
      if (at_ >= text_.size() || !is_digit(text_[at_])) return expected("a digit");
      skip_digits();
    }
    const std::string_view integer = text_.substr(digits, at_ - digits);
    bool whole = true;
    if (take('.')) {
      whole = false;
      if (!skip_digits()) return expected("a digit");
    }
    if (take('e') || take('E')) {
      whole = false;
      if (!take('+')) take('-');
      if (!skip_digits()) return expected("a digit");
    }
    const std::string_view all = text_.substr(begin, at_ - begin);
    if (whole && !(negative && integer == "0")) {
      uint64_t magnitude = 0;
      const auto [end, error] = std::from_chars(integer.data(), integer.data() + integer.size(), magnitude);
      if (error == std::errc() && (!negative || magnitude <= uint64_t{1} << 63)) {
        out.kind_ = JsonValue::Kind::integer;
        out.negative_ = negative;
        out.magnitude_ = magnitude;
        return {};
      }
    }
    out.kind_ = JsonValue::Kind::real;
    const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), out.real_);
    if (error != std::errc()) {
      if (leading_exponent(all) > 0) return invalid("JSON: byte {}: the number does not fit a double", begin);
      out.real_ = negative ? -0.0 : 0.0;
    }
    return {};
  }
  bool skip_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }

  std::string_view text_;
  size_t at_ = 0;
};

Result<JsonValue> JsonValue::parse(std::string_view text) { return JsonReader(text).document(); }

std::string_view JsonValue::kind_name() const {
  switch (kind_) {
    case Kind::null:
      return "null";
    case Kind::boolean:
      return "a boolean";
    case Kind::integer:
      return "an integer";
    case Kind::real:
      return "a number";
    case Kind::string:
      return "a string";
    case Kind::array:
      return "a list";
    case Kind::object:
      return "an object";
  }
  return "";
}

double JsonValue::number() const {
  if (kind_ == Kind::real) return real_;
  if (kind_ != Kind::integer) return 0;
  return negative_ ? -static_cast<double>(magnitude_) : static_cast<double>(magnitude_);
}

std::optional<int64_t> JsonValue::as_int64() const {
  if (kind_ != Kind::integer) return std::nullopt;
  if (negative_) return static_cast<int64_t>(~magnitude_ + 1);
  if (magnitude_ > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return static_cast<int64_t>(magnitude_);
}

std::optional<uint64_t> JsonValue::as_uint64() const {
  if (kind_ != Kind::integer || negative_) return std::nullopt;
  return magnitude_;
}

const JsonValue* JsonValue::find(std::string_view key) const {
  for (const Member& member : members_) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

size_t find_invalid_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  for (size_t i = 0; i < text.size();) {
    const unsigned a = byte(i), b = byte(i + 1);
    if (a < 0x80) {
      ++i;
    } else if (a >= 0xC2 && a <= 0xDF && follows(i + 1)) {
      i += 2;
    } else if (a >= 0xE0 && a <= 0xEF && follows(i + 1) && follows(i + 2) && (a != 0xE0 || b >= 0xA0) &&
               (a != 0xED || b < 0xA0)) {
      i += 3;
    } else if (a >= 0xF0 && a <= 0xF4 && follows(i + 1) && follows(i + 2) && follows(i + 3) &&
               (a != 0xF0 || b >= 0x90) && (a != 0xF4 || b < 0x90)) {
      i += 4;
    } else {
      return i;
    }
  }
  return std::string_view::npos;
}

}  // namespace deepinfer
