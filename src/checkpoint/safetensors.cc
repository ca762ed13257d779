// The safetensors format: u64 header length, JSON header, tensor bytes. Everything the header says is checked against
// the file.
#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/json_strict.h"

namespace deepinfer {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used where they lie: little-endian bytes");

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the limit of the format
constexpr size_t kMaxRank = 8;

struct DTypeInfo {
  DType dtype;
  const char* name;
  int64_t bytes;
};
constexpr DTypeInfo kDTypes[] = {{DType::bf16, "BF16", 2},       {DType::f32, "F32", 4}, {DType::f8_e4m3, "F8_E4M3", 1},
                                 {DType::f8_e8m0, "F8_E8M0", 1}, {DType::i8, "I8", 1},   {DType::i32, "I32", 4},
                                 {DType::i64, "I64", 8},         {DType::u8, "U8", 1}};

// What one header entry says.
struct Entry {
  bool has_dtype = false, has_shape = false, has_offsets = false;
  DType dtype = DType::u8;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
};

// Reads the header as a stream of events: nothing is built but the entries, and the first surprise ends it.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(const std::string& where, std::map<std::string, Entry>& entries) : where_(where), entries_(entries) {}
  Status status() const { return status_; }

  bool null() override { return unexpected("null"); }
  bool boolean(bool value) override { return unexpected(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return unexpected(fmt::format("{}", value)); }  // negative
  bool number_float(number_float_t, const string_t& text) override { return unexpected(text); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::shape) {
      if (value > static_cast<uint64_t>(INT64_MAX)) return unexpected(fmt::format("{}", value));
      if (entry_->shape.size() == kMaxRank) return refuse("shape has more than {} dimensions", kMaxRank);
      entry_->shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (place_ != Place::offsets) return unexpected(fmt::format("{}", value));
    if (entry_->offsets.size() == 2) return refuse("data_offsets has more than two numbers");
    entry_->offsets.push_back(value);
    return true;
  }
  bool string(string_t& value) override {
    if (place_ == Place::metadata) return true;  // free text of whoever wrote the file
    if (place_ != Place::dtype) return unexpected(in_quotes(value));
    for (const DTypeInfo& info : kDTypes) {
      if (value == info.name) {
        entry_->dtype = info.dtype;
        place_ = Place::entry;
        return true;
      }
    }
    return refuse("dtype: found {}, accepted: BF16, F32, F8_E4M3, F8_E8M0, I8, I32, I64, U8", in_quotes(value));
  }
  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::start:
        place_ = Place::root;
        return true;
      case Place::metadata_start:
        place_ = Place::metadata;
        return true;
      case Place::entry_start:
        place_ = Place::entry;
        return true;
      default:
        return unexpected("an object");
    }
  }
  bool end_object() override {
    if (place_ == Place::entry) {
      if (!entry_->has_dtype) return refuse("dtype is missing");
      if (!entry_->has_shape) return refuse("shape is missing");
      if (!entry_->has_offsets) return refuse("data_offsets is missing");
    }
    if (place_ != Place::entry && place_ != Place::metadata && place_ != Place::root)
      return unexpected("the end of an object");
    place_ = place_ == Place::root ? Place::end : Place::root;
    name_.clear();
    return true;
  }
  bool start_array(std::size_t) override {
    if (place_ == Place::shape_start) {
      place_ = Place::shape;
      return true;
    }
    if (place_ != Place::offsets_start) return unexpected("a list");
    place_ = Place::offsets;
    return true;
  }
  bool end_array() override {
    if (place_ == Place::offsets && entry_->offsets.size() != 2)
      return refuse("data_offsets: found {} numbers, accepted: 2", entry_->offsets.size());
    place_ = Place::entry;
    return true;
  }
  bool key(string_t& name) override {
    if (place_ == Place::root) return tensor_key(name);
    if (place_ == Place::metadata) return true;
    if (name == "dtype") return field(entry_->has_dtype, Place::dtype, name);
    if (name == "shape") return field(entry_->has_shape, Place::shape_start, name);
    if (name == "data_offsets") return field(entry_->has_offsets, Place::offsets_start, name);
    return refuse("unknown field {}, accepted: dtype, shape, data_offsets", in_quotes(name));
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    status_ = error_at("header is not valid JSON: " + json_complaint(error.what()));
    return false;
  }

 private:
  enum class Place {
    start,
    root,
    metadata_start,
    metadata,
    entry_start,
    entry,
    dtype,
    shape_start,
    shape,
    offsets_start,
    offsets,
    end
  };

  bool tensor_key(const std::string& name) {
    if (name == "__metadata__") {
      place_ = Place::metadata_start;
      if (metadata_seen_) return refuse("\"__metadata__\" appears twice in the header");
      metadata_seen_ = true;
      return true;
    }
    name_ = name;
    const auto [at, added] = entries_.try_emplace(name);
    if (!added) return refuse("appears twice in the header");
    entry_ = &at->second;
    place_ = Place::entry_start;
    return true;
  }
  bool field(bool& seen, Place next, const std::string& name) {
    if (seen) return refuse("{} appears twice", name);
    seen = true;
    place_ = next;
    return true;
  }
  template <typename... Args>
  bool refuse(fmt::format_string<Args...> text, Args&&... args) {
    status_ = error_at(fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool unexpected(const std::string& found) {
    constexpr const char* kAccepted[] = {"an object of tensors",
                                         "the end of the header",
                                         "an object of texts",
                                         "texts",
                                         "an object with dtype, shape and data_offsets",
                                         "dtype, shape and data_offsets",
                                         "a dtype name",
                                         "a list of whole numbers",
                                         "whole numbers below 2^63",
                                         "a list of two whole numbers",
                                         "whole numbers below 2^64",
                                         "nothing more"};
    return refuse("header: found {}, accepted: {}", found, kAccepted[static_cast<size_t>(place_)]);
  }
  Status error_at(const std::string& text) const {
    if (name_.empty()) return error(Code::data_loss, "{}: {}", where_, text);
    return error(Code::data_loss, "{}: tensor {}: {}", where_, in_quotes(name_), text);
  }

  const std::string& where_;
  std::map<std::string, Entry>& entries_;
  Place place_ = Place::start;
  std::string name_;
  Entry* entry_ = nullptr;
  bool metadata_seen_ = false;
  Status status_;
};

// Elements of a shape, or -1 if the product does not fit.
int64_t checked_elements(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (const int64_t dim : shape) {
    if (__builtin_mul_overflow(product, dim, &product)) return -1;
  }
  return product;
}

Status check_entry(const Entry& entry, uint64_t data_start, uint64_t data_bytes, const std::string& at) {
  const uint64_t begin = entry.offsets[0];
  const uint64_t end = entry.offsets[1];
  if (begin > end) return error(Code::data_loss, "{}: data_offsets [{}, {}] run backwards", at, begin, end);
  if (end > data_bytes) {
    return error(Code::data_loss,
                 "{}: data_offsets [{}, {}] end beyond the file, which holds {} bytes of tensors (truncated?)", at,
                 begin, end, data_bytes);
  }
  const int64_t elements = checked_elements(entry.shape);
  int64_t bytes = 0;
  if (elements < 0 || __builtin_mul_overflow(elements, dtype_bytes(entry.dtype), &bytes)) {
    return error(Code::data_loss, "{}: shape [{}] has more than 2^63 bytes", at, fmt::join(entry.shape, ", "));
  }
  if (static_cast<uint64_t>(bytes) != end - begin) {
    return error(Code::data_loss, "{}: data_offsets [{}, {}] hold {} bytes, but {} of shape [{}] takes {}", at, begin,
                 end, end - begin, dtype_name(entry.dtype), fmt::join(entry.shape, ", "), bytes);
  }
  if ((data_start + begin) % static_cast<uint64_t>(dtype_bytes(entry.dtype)) != 0) {
    return error(Code::data_loss, "{}: begins at byte {} of the file, which is not a multiple of the {} bytes of {}",
                 at, data_start + begin, dtype_bytes(entry.dtype), dtype_name(entry.dtype));
  }
  return {};
}

// The tensors must tile the data without overlap and without holes.
Status check_tiling(const std::map<std::string, Entry>& entries, uint64_t data_bytes, const std::string& where) {
  std::vector<std::pair<const std::string*, const Entry*>> order;
  order.reserve(entries.size());
  for (const auto& [name, entry] : entries) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second->offsets < b.second->offsets; });
  // Overlaps first: a tensor that was moved onto another usually leaves a hole as well, and the overlap says more.
  for (size_t i = 1; i < order.size(); ++i) {
    const auto& [before, first] = order[i - 1];
    const auto& [name, second] = order[i];
    if (second->offsets[0] < first->offsets[1]) {
      return error(Code::data_loss, "{}: tensors {} and {} overlap: the second begins at byte {}, the first ends at {}",
                   where, in_quotes(*before), in_quotes(*name), second->offsets[0], first->offsets[1]);
    }
  }
  uint64_t reached = 0;
  for (const auto& [name, entry] : order) {
    if (entry->offsets[0] != reached) {
      return error(Code::data_loss, "{}: tensor {}: bytes {} to {} before it belong to no tensor", where,
                   in_quotes(*name), reached, entry->offsets[0]);
    }
    reached = entry->offsets[1];
  }
  if (reached != data_bytes) {
    return error(Code::data_loss, "{}: {} bytes at the end belong to no tensor (tensors end at {}, data at {})", where,
                 data_bytes - reached, reached, data_bytes);
  }
  return {};
}

}  // namespace

int64_t dtype_bytes(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].bytes; }
std::string_view dtype_name(DType dtype) { return kDTypes[static_cast<size_t>(dtype)].name; }

int64_t TensorView::elements() const { return bytes / dtype_bytes(dtype); }

Status SafetensorsFile::parse(std::span<const std::byte> file, const std::string& where,
                              std::map<std::string, TensorView>& tensors) {
  tensors.clear();
  if (file.size() < kLengthBytes) {
    return error(Code::data_loss, "{}: {} bytes, too short for a safetensors file (truncated?)", where, file.size());
  }
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, file.data(), kLengthBytes);
  const uint64_t rest = file.size() - kLengthBytes;
  if (header_bytes > rest) {
    return error(Code::data_loss,
                 "{}: header length {} is more than the {} bytes that follow (truncated, or not safetensors)", where,
                 header_bytes, rest);
  }
  if (header_bytes > kMaxHeaderBytes) {
    return error(Code::data_loss, "{}: header length {}, accepted: at most {}", where, header_bytes, kMaxHeaderBytes);
  }
  const char* text = reinterpret_cast<const char*>(file.data()) + kLengthBytes;
  std::map<std::string, Entry> entries;
  HeaderReader reader(where, entries);
  const bool parsed = nlohmann::json::sax_parse(text, text + header_bytes, &reader);
  DI_RETURN_IF_ERROR(reader.status());
  if (!parsed) return error(Code::data_loss, "{}: header is not valid JSON", where);

  const uint64_t data_start = kLengthBytes + header_bytes;
  const uint64_t data_bytes = file.size() - data_start;
  for (const auto& [name, entry] : entries) {
    DI_RETURN_IF_ERROR(
        check_entry(entry, data_start, data_bytes, fmt::format("{}: tensor {}", where, in_quotes(name))));
  }
  DI_RETURN_IF_ERROR(check_tiling(entries, data_bytes, where));
  for (auto& [name, entry] : entries) {
    TensorView& view = tensors[name];
    view.name = name;
    view.dtype = entry.dtype;
    view.shape = std::move(entry.shape);
    view.data = file.data() + data_start + entry.offsets[0];
    view.bytes = static_cast<int64_t>(entry.offsets[1] - entry.offsets[0]);
  }
  return {};
}

Result<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  SafetensorsFile out;
  DI_ASSIGN_OR_RETURN(out.file_, MappedFile::open(path));
  DI_RETURN_IF_ERROR(parse(out.file_.bytes(), path, out.tensors_));
  return out;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  return at == tensors_.end() ? nullptr : &at->second;
}

}  // namespace deepinfer
