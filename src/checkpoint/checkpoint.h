// Checkpoint: the tensors of a model directory (config.json, model.safetensors.index.json, *.safetensors), mapped
// read-only.
//
// Opening is strict: the set of tensors, their dtypes and shapes must be exactly those that the config calls for
// (manifest.h), plus the vision tower's where config.json has one (switched off by name, never read). Anything missing,
// extra, duplicate, overlapping, truncated or lying about offsets or sizes is an error that names file and tensor.
// Weights are never copied. Threading: immutable after open; views live as long as the Checkpoint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer {

enum class DType { bf16, f32, f8_e4m3, f8_e8m0, i8, i32, i64, u8 };
int64_t dtype_bytes(DType dtype);
std::string_view dtype_name(DType dtype);  // as safetensors spells it

// A tensor as stored: row-major, little-endian bytes inside a mapping.
struct TensorView {
  std::string name;
  DType dtype = DType::u8;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  int64_t bytes = 0;

  int64_t elements() const;
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

// One *.safetensors file. Also reads golden data and token maps.
class SafetensorsFile {
 public:
  static Result<SafetensorsFile> open(const std::string& path);
  // Checks a header against the size of the file it came from; the fuzz target enters here.
  static Status parse(std::span<const std::byte> file, const std::string& where,
                      std::map<std::string, TensorView>& tensors);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* find(const std::string& name) const;

 private:
  MappedFile file_;
  std::map<std::string, TensorView> tensors_;
};

struct CheckpointOptions {
  // Scale bytes (E8M0) up to this total are all scanned for NaN at open; beyond it only by `inspect --check` or when
  // first used (Checkpoint::check_scales).
  int64_t scan_scale_bytes = int64_t{1} << 30;
};

class Checkpoint {
 public:
  static Result<Checkpoint> open(const std::string& dir, const CheckpointOptions& options = {});

  const std::string& dir() const { return dir_; }
  const ModelConfig& config() const { return config_; }
  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  // Tensors of parts that are switched off (vision): checked against the manifest, not in tensors().
  const std::vector<std::string>& switched_off() const { return switched_off_; }
  // Path of the file that holds a tensor of tensors() or switched_off().
  const std::string& file_of(const std::string& name) const;
  // A tensor that the manifest guarantees; asking for another name is a bug of ours.
  const TensorView& tensor(const std::string& name) const;
  bool scales_checked() const { return scales_checked_; }
  // Scans every scale tensor (or the one named) for NaN bytes; data_loss naming file, tensor and element.
  Status check_scales() const;
  Status check_scale(const TensorView& scale) const;

 private:
  Status map_files();
  Status match_manifest();

  std::string dir_;
  ModelConfig config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, TensorView> tensors_;
  std::map<std::string, std::string> file_of_;
  std::vector<std::string> switched_off_;
  bool scales_checked_ = false;
};

}  // namespace deepinfer
