// Reads and writes config.json by visiting the description in config_fields.h.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>

#include "base/file.h"
#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/json_strict.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

// Takes fields out of a document; remembers the first error and then does nothing more.
class FieldReader {
 public:
  FieldReader(const Json& root, const std::string& where) : where_(where) { stack_.push_back({&root, "", {}}); }

  Status finish() {
    if (status_.ok()) refuse_unknown();
    return status_;
  }

  void begin(const char* key) {
    const Json* value = take(key);
    if (value != nullptr && !value->is_object()) refuse(key, *value, "an object");
    static const Json kEmpty = Json::object();
    stack_.push_back({status_.ok() ? value : &kEmpty, stack_.back().prefix + key + ".", {}});
  }
  bool optional_begin(const char* key, bool& present) {
    present = status_.ok() && stack_.back().object->contains(key);
    if (present) begin(key);
    return present;
  }
  void end() {
    if (status_.ok()) refuse_unknown();
    stack_.pop_back();
  }

  void fixed_text(const char* key, const char* accepted) {
    const Json* value = take(key);
    if (value != nullptr && *value != accepted) refuse(key, *value, fmt::format("\"{}\"", accepted));
  }
  void fixed_texts(const char* key, std::initializer_list<const char*> accepted) {
    const Json* value = take(key);
    if (value != nullptr && *value != Json(accepted)) refuse(key, *value, Json(accepted).dump());
  }
  void optional_text(const char* key, const char*) {
    if (!status_.ok() || !stack_.back().object->contains(key)) return;
    const Json* value = take(key);
    if (!value->is_string()) refuse(key, *value, "a text");
  }
  void fixed_integers(const char* key, std::initializer_list<int> accepted) {
    const Json* value = take(key);
    if (value != nullptr && (!all_integers(*value) || *value != Json(accepted)))
      refuse(key, *value, Json(accepted).dump());
  }
  void fixed_integer(const char* key, int64_t accepted, int64_t* out = nullptr) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (!value->is_number_integer() || *value != accepted) return refuse(key, *value, fmt::format("{}", accepted));
    if (out != nullptr) *out = accepted;
  }
  void fixed_flag(const char* key, bool accepted) {
    const Json* value = take(key);
    if (value != nullptr && *value != accepted) refuse(key, *value, accepted ? "true" : "false");
  }
  void fixed_null(const char* key) {
    const Json* value = take(key);
    if (value != nullptr && !value->is_null()) refuse(key, *value, "null");
  }
  void ignored_real(const char* key, double) {
    double unused = 0;
    real(key, unused, 0.0, 1.0);
  }
  void ignored_flag(const char* key, bool) {
    const Json* value = take(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, *value, "true or false");
  }

  template <typename T>
  void integer(const char* key, T& out, int64_t low, int64_t high, int64_t multiple = 1) {
    const Json* value = take(key);
    if (value == nullptr) return;
    int64_t number = 0;
    if (!in_range(*value, low, high, number) || number % multiple != 0) {
      std::string accepted = fmt::format("a whole number from {} to {}", low, high);
      if (multiple != 1) accepted += fmt::format(", a multiple of {}", multiple);
      return refuse(key, *value, accepted);
    }
    out = static_cast<T>(number);
  }
  template <typename T>
  void integers(const char* key, std::vector<T>& out, int64_t low, int64_t high, int64_t most) {
    const Json* value = take(key);
    if (value == nullptr) return;
    if (!value->is_array() || static_cast<int64_t>(value->size()) > most) {
      return refuse(key, *value, fmt::format("a list of at most {} whole numbers", most));
    }
    out.clear();
    for (const Json& item : *value) {
      int64_t number = 0;
      if (!in_range(item, low, high, number)) {
        const std::string name = fmt::format("{}[{}]", key, out.size());
        return refuse(name.c_str(), item, fmt::format("a whole number from {} to {}", low, high));
      }
      out.push_back(static_cast<T>(number));
    }
  }
  template <typename T>
  void real(const char* key, T& out, double low, double high) {
    const Json* value = take(key);
    if (value == nullptr) return;
    const double number = value->is_number() ? value->get<double>() : std::nan("");
    if (!(number >= low && number <= high))
      return refuse(key, *value, fmt::format("a number from {} to {}", low, high));
    out = static_cast<T>(number);
  }

 private:
  struct Level {
    const Json* object;
    std::string prefix;
    std::set<std::string> taken;
  };

  const Json* take(const char* key) {
    if (!status_.ok()) return nullptr;
    Level& level = stack_.back();
    level.taken.insert(key);
    const auto found = level.object->find(key);
    if (found != level.object->end()) return &*found;
    status_ = invalid("{}: {}{}: this field is missing", where_, level.prefix, key);
    return nullptr;
  }
  void refuse(const char* key, const Json& found, const std::string& accepted) {
    if (!status_.ok()) return;
    status_ = invalid("{}: {}{}: found {}, accepted: {}", where_, stack_.back().prefix, key, describe(found), accepted);
  }
  void refuse_unknown() {
    const Level& level = stack_.back();
    for (const auto& [key, value] : level.object->items()) {
      if (level.taken.contains(key)) continue;
      status_ = invalid(
          "{}: {}: unknown field (found {}); this engine knows the fields of the released DeepSeek-V4.1 config.json",
          where_, level.prefix + in_quotes(key), describe(value));
      return;
    }
  }
  static bool all_integers(const Json& list) {
    return list.is_array() &&
           std::all_of(list.begin(), list.end(), [](const Json& item) { return item.is_number_integer(); });
  }
  // Whole numbers only: 40.0 and "40" are other types, and what does not fit 64 bits was parsed as a double.
  static bool in_range(const Json& value, int64_t low, int64_t high, int64_t& number) {
    if (!value.is_number_integer()) return false;
    if (value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX)) return false;
    number = value.get<int64_t>();
    return number >= low && number <= high;
  }

  const std::string& where_;
  std::vector<Level> stack_;
  Status status_;
};

// Writes the same fields in the same order, two blanks a level, lists one item a line, as the released file.
class FieldWriter {
 public:
  FieldWriter() { open('{'); }
  std::string finish() {
    close('}');
    return text_ + "\n";
  }

  void begin(const char* key) {
    name(key);
    open('{');
  }
  bool optional_begin(const char* key, bool present) {
    if (present) begin(key);
    return present;
  }
  void end() { close('}'); }
  void fixed_text(const char* key, const char* value) { put(key, fmt::format("\"{}\"", value)); }
  void optional_text(const char* key, const char* value) { fixed_text(key, value); }
  void fixed_texts(const char* key, std::initializer_list<const char*> values) {
    name(key);
    open('[');
    for (const char* value : values) item(fmt::format("\"{}\"", value));
    close(']');
  }
  void fixed_integers(const char* key, std::initializer_list<int> values) {
    integers(key, std::vector<int>(values), 0, 0, 0);
  }
  void fixed_integer(const char* key, int64_t value, const int64_t* = nullptr) { put(key, fmt::format("{}", value)); }
  void fixed_flag(const char* key, bool value) { put(key, value ? "true" : "false"); }
  void fixed_null(const char* key) { put(key, "null"); }
  void ignored_real(const char* key, double value) { real(key, static_cast<float>(value), 0, 0); }
  void ignored_flag(const char* key, bool value) { fixed_flag(key, value); }
  void integer(const char* key, int64_t value, int64_t, int64_t, int64_t = 1) { fixed_integer(key, value); }
  template <typename T>
  void integers(const char* key, const std::vector<T>& values, int64_t, int64_t, int64_t) {
    name(key);
    open('[');
    for (const T value : values) item(fmt::format("{}", value));
    close(']');
  }
  template <typename T>
  void real(const char* key, T value, double, double) {
    std::string text = fmt::format("{}", value);  // the shortest text that reads back to the same number
    // The released file writes its float32 numbers with a point, its rope parameters without.
    if (std::is_same_v<T, float> && text.find_first_of(".e") == text.npos) text += ".0";
    put(key, text);
  }

 private:
  void line() {
    if (!first_) text_ += ',';
    if (depth_ > 0) text_ += '\n' + std::string(static_cast<size_t>(depth_) * 2, ' ');
    first_ = false;
  }
  void name(const char* key) {
    line();
    text_ += fmt::format("\"{}\": ", key);
  }
  void item(const std::string& value) {
    line();
    text_ += value;
  }
  void put(const char* key, const std::string& value) {
    name(key);
    text_ += value;
  }
  void open(char bracket) {
    text_ += bracket;
    ++depth_;
    first_ = true;
  }
  void close(char bracket) {
    --depth_;
    if (!first_) text_ += '\n' + std::string(static_cast<size_t>(depth_) * 2, ' ');
    text_ += bracket;
    first_ = false;
  }

  std::string text_;
  int depth_ = 0;
  bool first_ = true;
};

}  // namespace

Result<ModelConfig> parse_config(std::string_view json, const std::string& where) {
  Json root;
  DI_RETURN_IF_ERROR(parse_json_strict(json, where, root));
  if (!root.is_object()) return invalid("{}: found {}, accepted: an object", where, describe(root));
  ModelConfig config;
  FieldReader reader(root, where);
  visit_config(reader, config);
  DI_RETURN_IF_ERROR(reader.finish());
  DI_RETURN_IF_ERROR(check_config(config, where));
  return config;
}

Result<ModelConfig> read_config(const std::string& path) {
  constexpr size_t kMaxConfigBytes = size_t{1} << 20;
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxConfigBytes));
  return parse_config(text, path);
}

std::string config_to_json(const ModelConfig& config) {
  FieldWriter writer;
  visit_config(writer, config);
  return writer.finish();
}

}  // namespace deepinfer
