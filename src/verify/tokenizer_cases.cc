#include "verify/tokenizer_cases.h"

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

Status expand_text(const Json& form, std::string& out) {
  if (form.is_string()) {
    out += form.get_ref<const std::string&>();
    return {};
  }
  if (form.is_object() && form.size() == 1 && form.contains("concat") && form["concat"].is_array()) {
    for (const Json& part : form["concat"]) DI_RETURN_IF_ERROR(expand_text(part, out));
    return {};
  }
  if (form.is_object() && form.size() == 1 && form.contains("repeat") && form["repeat"].is_array()) {
    const Json& r = form["repeat"];
    if (r.size() == 2 && r[0].is_string() && r[1].is_number_unsigned()) {
      const std::string& unit = r[0].get_ref<const std::string&>();
      const auto times = r[1].get<uint64_t>();
      if (times > kMaxExpanded || unit.size() * times + out.size() > kMaxExpanded) return invalid("repeats too much");
      for (uint64_t i = 0; i < times; ++i) out += unit;
      return {};
    }
  }
  return invalid("is neither a text, {{\"repeat\": [text, times]}} nor {{\"concat\": [..]}}");
}

Status append_number(const Json& value, std::vector<int64_t>& out) {
  if (!value.is_number_integer()) return invalid("holds {}, accepted: whole numbers", value.dump().substr(0, 40));
  out.push_back(value.get<int64_t>());
  return {};
}

Status expand_list(const Json& form, std::vector<int64_t>& out) {
  if (form.is_array()) {
    for (const Json& value : form) DI_RETURN_IF_ERROR(append_number(value, out));
    return {};
  }
  if (!form.is_object() || form.size() != 1 || !form.contains("rle") || !form["rle"].is_array()) {
    return invalid("is neither a list nor {{\"rle\": [[number or list, times], ..]}}");
  }
  for (const Json& run : form["rle"]) {
    if (!run.is_array() || run.size() != 2 || !run[1].is_number_unsigned())
      return invalid("has a run that is not [number or list, times]");
    std::vector<int64_t> unit;
    DI_RETURN_IF_ERROR(run[0].is_array() ? expand_list(run[0], unit) : append_number(run[0], unit));
    const auto times = run[1].get<uint64_t>();
    if (times > kMaxExpanded || unit.size() * times + out.size() > kMaxExpanded) return invalid("repeats too much");
    for (uint64_t i = 0; i < times; ++i) out.insert(out.end(), unit.begin(), unit.end());
  }
  return {};
}

Status read_hex(const Json& value, std::string& out) {
  if (!value.is_string() || value.get_ref<const std::string&>().size() % 2 != 0)
    return invalid("is not a text of hex digits in pairs");
  const std::string& hex = value.get_ref<const std::string&>();
  const auto digit = [](char c) { return std::string_view("0123456789abcdef").find(c); };
  for (size_t i = 0; i < hex.size(); i += 2) {
    const size_t high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high > 15 || low > 15) return invalid("has a character that is no hex digit");
    out += static_cast<char>(high << 4 | low);
  }
  return {};
}

Status read_string(const Json& value, std::string& out) {
  if (!value.is_string()) return invalid("is not a text");
  out = value.get<std::string>();
  return {};
}

Status read_field(const std::string& field, const Json& value, TokenizerCase& out) {
  if (field == "name") return read_string(value, out.name);
  if (out.text) {
    TextCase& c = *out.text;
    if (field == "text") return expand_text(value, c.text);
    if (field == "ids") return expand_list(value, c.ids);
    if (field == "ids_plain") return expand_list(value, c.ids_plain);
    if (field == "pieces") return expand_list(value, c.pieces);
    if (field == "decoded") return read_string(value, c.decoded.emplace());
    return invalid("is not a field of a text case");
  }
  DecodeCase& c = *out.decode;
  if (field == "decode_ids") {
    std::vector<int64_t> ids;
    DI_RETURN_IF_ERROR(expand_list(value, ids));
    for (const int64_t id : ids) {
      if (id != static_cast<int32_t>(id)) return invalid("holds {}, which is no id", id);
      c.ids.push_back(static_cast<int32_t>(id));
    }
    return {};
  }
  if (field == "bytes_hex") return read_hex(value, c.bytes);
  if (field == "decoded") return read_string(value, c.decoded);
  if (field == "decoded_skip_special") return read_string(value, c.decoded_skip_special.emplace());
  if (field == "stream") {
    if (!value.is_array()) return invalid("is not a list of texts");
    for (const Json& part : value) DI_RETURN_IF_ERROR(read_string(part, c.stream.emplace_back()));
    return {};
  }
  return invalid("is not a field of a decode case");
}

Result<TokenizerCase> read_case(std::string_view line, const std::string& at) {
  const Json json = Json::parse(line, nullptr, false);
  if (!json.is_object()) return invalid("{}: not a JSON object", at);
  TokenizerCase out;
  if (json.contains("text")) {
    out.text.emplace();
  } else {
    out.decode.emplace();
  }
  const std::vector<const char*> needed =
      out.text ? std::vector<const char*>{"name", "text", "ids", "ids_plain", "pieces"}
               : std::vector<const char*>{"name", "decode_ids", "bytes_hex", "decoded", "stream"};
  for (const char* field : needed) {
    if (!json.contains(field)) return invalid("{}: {} is missing", at, field);
  }
  for (const auto& [field, value] : json.items()) {
    const Status status = read_field(field, value, out);
    if (!status.ok()) return invalid("{}: {} {}", at, field, status.message());
  }
  return out;
}

}  // namespace

Result<std::vector<TokenizerCase>> read_tokenizer_cases(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string content, read_file(path));
  std::vector<TokenizerCase> cases;
  size_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t newline = content.find('\n', begin);
    const size_t end = newline == content.npos ? content.size() : newline;
    const std::string_view line = std::string_view(content).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    DI_ASSIGN_OR_RETURN(TokenizerCase read, read_case(line, fmt::format("{}:{}", path, number)));
    cases.push_back(std::move(read));
  }
  return cases;
}

}  // namespace deepinfer
