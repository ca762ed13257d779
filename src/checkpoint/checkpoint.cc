// Opens a model directory: index, shards, manifest; every byte of every file is accounted for.
#include "checkpoint/checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "checkpoint/engram_constants.h"
#include "checkpoint/json_strict.h"
#include "checkpoint/manifest.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

constexpr size_t kMaxIndexBytes = size_t{256} << 20;  // the released one has about 8 MB
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr const char* kTokenMapName = "token_map.safetensors";
constexpr const char* kSuffix = ".safetensors";

struct Index {
  std::map<std::string, std::string> file_of;  // tensor -> file name
  std::set<std::string> files;
  bool has_total = false;
  uint64_t total_size = 0;
};

// A shard lies beside its index: a plain file name that cannot point anywhere else. (What lies there may be a link, as in the
// caches of model downloaders.)
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos && name.find('\\') == name.npos && name.find('\0') == name.npos &&
         name != "." && name != "..";
}

Result<Index> read_index(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > kMaxIndexBytes) {
    return invalid("{}: {} bytes, accepted: at most {}", path, file.bytes().size(), kMaxIndexBytes);
  }
  Json root;
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  DI_RETURN_IF_ERROR(parse_json_strict(text, path, root));
  if (!root.is_object()) return invalid("{}: found {}, accepted: an object", path, describe(root));
  for (const auto& [key, value] : root.items()) {
    if (key != "metadata" && key != "weight_map") {
      return invalid("{}: unknown field {}, accepted: metadata, weight_map", path, in_quotes(key));
    }
    if (!value.is_object()) return invalid("{}: {}: found {}, accepted: an object", path, key, describe(value));
  }
  if (!root.contains("weight_map")) return invalid("{}: weight_map: this field is missing", path);
  Index index;
  for (const auto& [tensor, name] : root["weight_map"].items()) {
    if (!name.is_string())
      return invalid("{}: tensor {}: found {}, accepted: a file name", path, in_quotes(tensor), describe(name));
    const std::string& file_name = name.get_ref<const std::string&>();
    if (!is_plain_name(file_name) || !file_name.ends_with(kSuffix) || file_name == kTokenMapName) {
      return invalid(
          "{}: tensor {}: file {} is not accepted: the name of a *.safetensors file in the same directory, without a "
          "path",
          path, in_quotes(tensor), in_quotes(file_name));
    }
    index.file_of[tensor] = file_name;
    index.files.insert(file_name);
  }
  if (root.contains("metadata") && root["metadata"].contains("total_size")) {
    const Json& total = root["metadata"]["total_size"];
    if (!total.is_number_unsigned())
      return invalid("{}: metadata.total_size: found {}, accepted: a whole number", path, describe(total));
    index.has_total = true;
    index.total_size = total.get<uint64_t>();
  }
  return index;
}

bool exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Weight files that lie in the directory, except the token map.
Result<std::vector<std::string>> weight_files(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code failure;
  for (fs::directory_iterator at(dir, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(kSuffix) && name != kTokenMapName) names.push_back(name);
  }
  if (failure) return error(Code::io_error, "{}: cannot list: {}", dir, failure.message());
  std::sort(names.begin(), names.end());
  return names;
}

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::string& dir, const CheckpointOptions& options) {
  Checkpoint out;
  out.dir_ = dir;
  const fs::path root(dir);
  const std::string config_path = (root / "config.json").string();
  DI_ASSIGN_OR_RETURN(out.config_, read_config(config_path));
  if (const auto constants = engram_constants(out.config_); !constants.ok()) {
    return error(constants.status().code(), "{}: {}", config_path, constants.status().message());
  }
  DI_RETURN_IF_ERROR(out.map_files());
  DI_RETURN_IF_ERROR(out.match_manifest());
  int64_t scale_bytes = 0;
  for (const auto& [name, tensor] : out.tensors_) {
    if (tensor.dtype == DType::f8_e8m0) scale_bytes += tensor.bytes;
  }
  if (scale_bytes <= options.scan_scale_bytes) {
    DI_RETURN_IF_ERROR(out.check_scales());
    out.scales_checked_ = true;
  }
  return out;
}

// Maps every shard; each tensor must be where the index says, once.
Status Checkpoint::map_files() {
  const fs::path root(dir_);
  DI_ASSIGN_OR_RETURN(const std::vector<std::string> present, weight_files(dir_));
  const std::string index_path = (root / kIndexName).string();
  const bool has_index = exists(index_path);
  Index index;
  if (has_index) {
    DI_ASSIGN_OR_RETURN(index, read_index(index_path));
  } else if (present.size() == 1 && present[0] == kSingleName) {
    index.files.insert(kSingleName);
  } else {
    return error(Code::not_found, "{}: no {}, and not exactly one {} (found {} *.safetensors files)", dir_, kIndexName,
                 kSingleName, present.size());
  }
  for (const std::string& name : present) {
    if (!index.files.contains(name)) {
      return invalid("{}: no tensor of {} is in this file; a file of weights that nothing uses is not accepted",
                     (root / name).string(), kIndexName);
    }
  }
  for (const std::string& name : index.files) {
    const std::string path = (root / name).string();
    if (has_index && !exists(path)) {
      const auto user = std::find_if(index.file_of.begin(), index.file_of.end(),
                                     [&](const auto& item) { return item.second == name; });
      return error(Code::not_found, "{}: this file does not exist, but {} puts tensor {} there", path, index_path,
                   in_quotes(user->first));
    }
  }
  uint64_t total = 0;
  for (const std::string& name : index.files) {
    const std::string path = (root / name).string();
    DI_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
    for (const auto& [tensor, view] : file.tensors()) {
      const auto entry = index.file_of.find(tensor);
      if (has_index && entry == index.file_of.end()) {
        return invalid("{}: tensor {} is in the file but not in {}", path, in_quotes(tensor), index_path);
      }
      if (const auto other = file_of_.find(tensor); other != file_of_.end()) {
        return invalid("{}: tensor {} is also in {}", path, in_quotes(tensor), other->second);
      }
      if (has_index && entry->second != name) {
        return invalid("{}: tensor {} is in this file, but {} puts it in {}", path, in_quotes(tensor), index_path,
                       in_quotes(entry->second));
      }
      total += static_cast<uint64_t>(view.bytes);
      tensors_.emplace(tensor, view);
      file_of_.emplace(tensor, path);
    }
    files_.push_back(std::move(file));
  }
  for (const auto& [tensor, name] : index.file_of) {
    if (!tensors_.contains(tensor)) {
      return error(Code::data_loss, "{}: tensor {} is missing, but {} puts it there", (root / name).string(),
                   in_quotes(tensor), index_path);
    }
  }
  if (index.has_total && index.total_size != total) {
    return error(Code::data_loss, "{}: metadata.total_size is {}, but the tensors hold {} bytes", index_path,
                 index.total_size, total);
  }
  return {};
}

// The set of tensors, their dtypes and shapes must be those of the config.
Status Checkpoint::match_manifest() {
  size_t matched = 0;
  for (const ManifestEntry& entry : manifest(config_)) {
    const auto at = tensors_.find(entry.name);
    if (at == tensors_.end()) {
      return error(Code::not_found, "{}: tensor {} is missing: config.json calls for {} {}", dir_,
                   in_quotes(entry.name), dtype_name(entry.dtype), shape_text(entry.shape));
    }
    const TensorView& view = at->second;
    if (view.dtype != entry.dtype || view.shape != entry.shape) {
      return invalid("{}: tensor {}: found {} {}, accepted: {} {}, as config.json calls for", file_of_[entry.name],
                     in_quotes(entry.name), dtype_name(view.dtype), shape_text(view.shape), dtype_name(entry.dtype),
                     shape_text(entry.shape));
    }
    ++matched;
    if (entry.part == Part::vision) switched_off_.push_back(entry.name);
  }
  if (matched != tensors_.size()) {
    std::set<std::string> wanted;
    for (ManifestEntry& entry : manifest(config_)) wanted.insert(std::move(entry.name));
    for (const auto& [name, view] : tensors_) {
      if (!wanted.contains(name)) {
        return invalid(
            "{}: tensor {}: config.json calls for no such tensor ({})", file_of_[name], in_quotes(name),
            config_.has_vision ? "text model and vision tower" : "text model; config.json has no vision_config");
      }
    }
  }
  for (const std::string& name : switched_off_) tensors_.erase(name);
  return {};
}

const TensorView& Checkpoint::tensor(const std::string& name) const {
  const auto at = tensors_.find(name);
  DI_CHECK_MSG(at != tensors_.end(), "no tensor {} in the manifest", name);
  return at->second;
}

const std::string& Checkpoint::file_of(const std::string& name) const {
  const auto at = file_of_.find(name);
  DI_CHECK_MSG(at != file_of_.end(), "no tensor {} in the checkpoint", name);
  return at->second;
}

Status Checkpoint::check_scale(const TensorView& scale) const {
  const void* found = scale.bytes == 0 ? nullptr : std::memchr(scale.data, 0xFF, static_cast<size_t>(scale.bytes));
  if (found == nullptr) return {};
  const int64_t element = static_cast<const std::byte*>(found) - scale.data;
  const auto file = file_of_.find(scale.name);
  return error(Code::data_loss, "{}: tensor {}: element {} is a NaN scale (byte 255)",
               file == file_of_.end() ? dir_ : file->second, in_quotes(scale.name), element);
}

Status Checkpoint::check_scales() const {
  for (const auto& [name, tensor] : tensors_) {
    if (tensor.dtype == DType::f8_e8m0) DI_RETURN_IF_ERROR(check_scale(tensor));
  }
  return {};
}

}  // namespace deepinfer
