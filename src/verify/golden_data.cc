#include "verify/golden_data.h"

#include <charconv>
#include <cstring>

#include "base/file.h"
#include "text/json.h"

namespace deepinfer {
namespace {

using Kind = JsonValue::Kind;

Status in_file(const std::string& path, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", path, status.message()));
}

// A number of an object; `missing` if it is absent.
Result<int64_t> number(const JsonValue& object, std::string_view key, int64_t missing) {
  const JsonValue* value = object.find(key);
  if (value == nullptr) return missing;
  const std::optional<int64_t> n = value->as_int64();
  if (!n.has_value() || *n < 0 || *n > int64_t{1} << 40)
    return invalid("\"{}\": {}, a number from 0 to 2^40 is expected", key, value->dump());
  return *n;
}

Result<std::string> text(const JsonValue& object, std::string_view key) {
  const JsonValue* value = object.find(key);
  if (value == nullptr || !value->is(Kind::string) || value->string().empty())
    return invalid("\"{}\": a string is expected", key);
  return value->string();
}

Result<CaseInfo> read_case(const JsonValue& entry) {
  CaseInfo info;
  if (!entry.is(Kind::object)) return invalid("\"cases\": an entry is {}, not an object", entry.kind_name());
  DI_ASSIGN_OR_RETURN(info.name, text(entry, "name"));
  DI_ASSIGN_OR_RETURN(info.file, text(entry, "file"));
  DI_ASSIGN_OR_RETURN(info.kind, text(entry, "kind"));
  if (info.file.find('/') != info.file.npos || info.file == "..")
    return invalid("case {}: \"file\" is '{}', a name without a directory is expected", info.name, info.file);
  if (info.kind != "prefill" && info.kind != "decode" && info.kind != "dspark" && info.kind != "replay") {
    return invalid("case {}: \"kind\" is '{}', accepted are prefill, decode, dspark, replay", info.name, info.kind);
  }
  const std::pair<const char*, int64_t*> numbers[] = {{"length", &info.length}, {"prefill", &info.prefill},
                                                      {"steps", &info.steps},   {"k", &info.k},
                                                      {"split", &info.split},   {"segment_start", &info.segment_start}};
  for (const auto& [key, value] : numbers) {
    DI_ASSIGN_OR_RETURN(*value, number(entry, key, -1));
  }
  const bool prompt_only = info.kind == "prefill", replayed = info.kind == "replay";
  const int64_t prompt = prompt_only || replayed ? info.length : info.prefill;
  if (prompt < 1 || (!prompt_only && info.steps < 0)) {
    return invalid("case {}: a case of kind {} needs {}", info.name, info.kind,
                   prompt_only ? "\"length\""
                   : replayed  ? "\"length\" and \"steps\""
                               : "\"prefill\" and \"steps\"");
  }
  return info;
}

// [[1, 2], [3]] or ["1", "2"] as one list of unsigned numbers.
Status flatten(const JsonValue& value, std::string_view key, std::vector<uint64_t>& out) {
  if (value.is(Kind::array)) {
    for (const JsonValue& item : value.items()) DI_RETURN_IF_ERROR(flatten(item, key, out));
    return {};
  }
  std::optional<uint64_t> n = value.as_uint64();
  if (value.is(Kind::string)) {
    const std::string& digits = value.string();
    uint64_t parsed = 0;
    const auto [end, problem] = std::from_chars(digits.data(), digits.data() + digits.size(), parsed);
    if (problem == std::errc() && end == digits.data() + digits.size()) n = parsed;
  }
  if (!n.has_value()) return invalid("\"engram\": \"{}\" holds {}, numbers are expected", key, value.dump());
  out.push_back(*n);
  return {};
}

Status read_engram(const JsonValue& engram, GoldenIndex& index) {
  const JsonValue* layers = engram.find("layer_ids");
  if (layers == nullptr || !layers->is(Kind::array)) return invalid("\"engram\": \"layer_ids\" is missing");
  for (const JsonValue& layer : layers->items())
    index.engram_layers.push_back(static_cast<int>(layer.as_int64().value_or(-1)));
  const size_t count = index.engram_layers.size();
  index.engram.resize(count);
  DI_ASSIGN_OR_RETURN(index.engram_pad_class, number(engram, "compressed_pad_id", -1));
  for (const std::string_view key : {"primes", "offsets", "multipliers", "rows"}) {
    const JsonValue* list = engram.find(key);
    if (list == nullptr || !list->is(Kind::array) || list->items().size() != count)
      return invalid("\"engram\": \"{}\" needs an entry for each of {} layers", key, count);
    for (size_t i = 0; i < count; ++i) {
      std::vector<uint64_t> numbers;
      DI_RETURN_IF_ERROR(flatten(list->items()[i], key, numbers));
      EngramConstants& c = index.engram[i];
      if (key == "primes") c.primes = std::move(numbers);
      if (key == "offsets") c.offsets = std::move(numbers);
      if (key == "multipliers") c.multipliers = std::move(numbers);
      if (key == "rows") c.rows = numbers.empty() ? 0 : numbers[0];
    }
  }
  return {};
}

Status read_index(const JsonValue& json, GoldenIndex& index) {
  DI_ASSIGN_OR_RETURN(index.config_name, text(json, "config"));
  const JsonValue* seed = json.find("seed");
  if (seed == nullptr || !seed->as_uint64().has_value()) return invalid("\"seed\": a whole number is expected");
  index.seed = *seed->as_uint64();
  const JsonValue* cases = json.find("cases");
  if (cases == nullptr || !cases->is(Kind::array)) return invalid("\"cases\": a list is expected");
  for (const JsonValue& entry : cases->items()) {
    DI_ASSIGN_OR_RETURN(CaseInfo info, read_case(entry));
    index.cases.push_back(std::move(info));
  }
  if (const JsonValue* engram = json.find("engram")) DI_RETURN_IF_ERROR(read_engram(*engram, index));
  if (const JsonValue* digests = json.find("weights_sha256_16")) {
    for (const JsonValue::Member& member : digests->members()) index.sha256_16[member.key] = member.value.string();
  }
  return {};
}

template <typename T>
constexpr DType kDType = DType::u8;
template <>
constexpr DType kDType<bf16> = DType::bf16;
template <>
constexpr DType kDType<float> = DType::f32;
template <>
constexpr DType kDType<int32_t> = DType::i32;

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

Result<GoldenIndex> read_golden_index(const std::string& dir) {
  const std::string path = dir + "/index.json";
  DI_ASSIGN_OR_RETURN(const std::string bytes, read_file(path, size_t{64} << 20));
  Result<JsonValue> json = JsonValue::parse(bytes);
  if (!json.ok()) return in_file(path, json.status());
  GoldenIndex index;
  if (const Status status = read_index(*json, index); !status.ok()) return in_file(path, status);
  return index;
}

Result<GoldenCase> GoldenCase::open(const std::string& dir, const CaseInfo& info) {
  GoldenCase golden;
  golden.info_ = info;
  DI_ASSIGN_OR_RETURN(golden.file_, SafetensorsFile::open(dir + "/" + info.file));
  return golden;
}

Status GoldenCase::wrong(const std::string& name, std::string_view found, std::string_view accepted) const {
  return invalid("{}: tensor {}: {}, {} is expected", info_.file, name, found, accepted);
}

Result<const TensorView*> GoldenCase::checked(const std::string& name, DType dtype, int64_t rows, int64_t cols) const {
  const TensorView* t = file_.find(name);
  if (t == nullptr) return t;
  const std::string found = fmt::format("{} {}", dtype_name(t->dtype), shape_text(t->shape));
  const auto dim = [](int64_t n) { return n < 0 ? std::string("any") : std::to_string(n); };
  const bool shaped = !t->shape.empty() && (rows < 0 || t->shape[0] == rows);
  const int64_t inner = shaped && t->shape[0] > 0 ? t->elements() / t->shape[0] : cols;
  if (t->dtype != dtype || !shaped || (cols >= 0 && inner != cols)) {
    return wrong(name, found, fmt::format("{} [{}, {}]", dtype_name(dtype), dim(rows), dim(cols)));
  }
  return t;
}

template <typename T>
Result<Golden<T>> GoldenCase::get(const std::string& name, int64_t rows, int64_t cols) const {
  DI_ASSIGN_OR_RETURN(const TensorView* t, checked(name, kDType<T>, rows, cols));
  Golden<T> golden;
  if (t == nullptr || t->bytes == 0) return golden;
  golden.rows = t->shape[0];
  golden.cols = t->elements() / golden.rows;
  golden.data.resize(static_cast<size_t>(t->elements()));
  std::memcpy(golden.data.data(), t->data, static_cast<size_t>(t->bytes));
  return golden;
}

template <typename T>
Result<Golden<T>> GoldenCase::need(const std::string& name, int64_t rows, int64_t cols) const {
  if (!has(name)) return wrong(name, "missing", std::string(dtype_name(kDType<T>)));
  return get<T>(name, rows, cols);
}

template Result<Golden<bf16>> GoldenCase::get(const std::string&, int64_t, int64_t) const;
template Result<Golden<float>> GoldenCase::get(const std::string&, int64_t, int64_t) const;
template Result<Golden<int32_t>> GoldenCase::get(const std::string&, int64_t, int64_t) const;
template Result<Golden<uint8_t>> GoldenCase::get(const std::string&, int64_t, int64_t) const;
template Result<Golden<bf16>> GoldenCase::need(const std::string&, int64_t, int64_t) const;
template Result<Golden<float>> GoldenCase::need(const std::string&, int64_t, int64_t) const;
template Result<Golden<int32_t>> GoldenCase::need(const std::string&, int64_t, int64_t) const;

Result<std::vector<int64_t>> GoldenCase::positions(const std::string& name, int64_t below) const {
  DI_ASSIGN_OR_RETURN(const Golden<int32_t> golden, get<int32_t>(name, -1, 1));
  std::vector<int64_t> list(golden.data.begin(), golden.data.end());
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] < (i == 0 ? 0 : list[i - 1] + 1) || list[i] >= below) {
      return wrong(name, fmt::format("{} at place {}", list[i], i), fmt::format("an ascending list below {}", below));
    }
  }
  return list;
}

Result<std::vector<int32_t>> GoldenCase::tokens(int64_t count, int64_t vocab) const {
  DI_ASSIGN_OR_RETURN(Golden<int32_t> golden, need<int32_t>("tokens", count, 1));
  for (const int32_t id : golden.data) {
    if (id < 0 || id >= vocab) return wrong("tokens", fmt::format("id {}", id), fmt::format("0 to {}", vocab - 1));
  }
  return std::move(golden.data);
}

}  // namespace deepinfer
