#include "checkpoint/token_map.h"

#include <algorithm>
#include <filesystem>

#include "checkpoint/checkpoint.h"

namespace deepinfer {

Result<std::vector<int32_t>> read_token_map(const std::string& dir, const ModelConfig& config) {
  const std::string path = (std::filesystem::path(dir) / "token_map.safetensors").string();
  DI_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::open(path));
  const TensorView* view = file.find("token_map");
  if (view == nullptr || file.tensors().size() != 1) {
    return invalid("{}: found {} tensors, accepted: one, token_map", path, file.tensors().size());
  }
  if (view->dtype != DType::i32 || view->shape != std::vector<int64_t>{config.vocab_size}) {
    return invalid("{}: tensor token_map: found {} [{}], accepted: I32 [{}], one entry a token", path,
                   dtype_name(view->dtype), fmt::join(view->shape, ", "), config.vocab_size);
  }
  std::vector<int32_t> map(view->as<int32_t>(), view->as<int32_t>() + config.vocab_size);
  const int64_t classes = config.engram_compressed_vocab_size;
  std::vector<bool> used(static_cast<size_t>(classes));
  for (size_t token = 0; token < map.size(); ++token) {
    if (map[token] < 0 || map[token] >= classes) {
      return invalid("{}: token_map[{}]: found {}, accepted: 0 to engram_compressed_vocab_size - 1 = {}", path, token,
                     map[token], classes - 1);
    }
    used[static_cast<size_t>(map[token])] = true;
  }
  if (const auto unused = std::find(used.begin(), used.end(), false); unused != used.end()) {
    return invalid(
        "{}: token_map: no token has class {}, accepted: all of the {} classes of engram_compressed_vocab_size", path,
        unused - used.begin(), classes);
  }
  return map;
}

}  // namespace deepinfer
