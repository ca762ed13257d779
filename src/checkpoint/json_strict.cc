#include "checkpoint/json_strict.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace deepinfer {
namespace {

using Json = nlohmann::json;

// Builds the document and stops at the first thing that JSON allows but a model directory must not contain.
class StrictBuilder : public nlohmann::json_sax<Json> {
 public:
  StrictBuilder(const std::string& where, Json& root) : where_(where), root_(root) {}
  Status status() const { return status_; }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    if (stack_.back()->contains(name)) {
      status_ = invalid("{}: {}: this key appears twice in one object", where_, in_quotes(name));
      return false;
    }
    key_ = std::move(name);
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    status_ = invalid("{}: not valid JSON: {}", where_, json_complaint(error.what()));
    return false;
  }

 private:
  Json* place(Json value) {
    if (stack_.empty()) return &(root_ = std::move(value));
    Json& parent = *stack_.back();
    if (parent.is_array()) return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool put(Json value) {
    place(std::move(value));
    return true;
  }
  bool open(Json value) {
    if (stack_.size() >= kMaxModelFileDepth) {
      status_ = invalid("{}: JSON nested deeper than {} levels", where_, kMaxModelFileDepth);
      return false;
    }
    stack_.push_back(place(std::move(value)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  const std::string& where_;
  Json& root_;
  std::vector<Json*> stack_;
  std::string key_;
  Status status_;
};

}  // namespace

std::string json_complaint(const char* what) {
  std::string_view text(what);
  if (const size_t end = text.find("] "); text.starts_with('[') && end != text.npos) text.remove_prefix(end + 2);
  return std::string(text.substr(0, 300));
}

std::string in_quotes(std::string_view name) {
  size_t shown = std::min<size_t>(name.size(), 200);
  while (shown < name.size() && shown > 0 && (static_cast<unsigned char>(name[shown]) & 0xC0) == 0x80) --shown;
  std::string out = "\"";
  for (const char c : name.substr(0, shown)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F || c == '"' || c == '\\') {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + (shown < name.size() ? "...\"" : "\"");
}

std::string describe(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_string()) return in_quotes(value.get_ref<const std::string&>());
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 80 ? text : text.substr(0, 77) + "...";
}

Status parse_json_strict(std::string_view text, const std::string& where, Json& out) {
  Json root;
  StrictBuilder builder(where, root);
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &builder);
  DI_RETURN_IF_ERROR(builder.status());
  if (!parsed) return invalid("{}: not valid JSON", where);
  out = std::move(root);
  return {};
}

}  // namespace deepinfer
