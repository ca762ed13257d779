#include "engine/model_dir.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/token_map.h"
#include "text/engram_map.h"

namespace deepinfer {

Result<std::optional<Tokenizer>> read_tokenizer(const std::string& dir) {
  const std::string path = dir + "/tokenizer.json";
  if (!std::filesystem::exists(path)) return std::optional<Tokenizer>();
  DI_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::open(path));
  return std::optional<Tokenizer>(std::move(tokenizer));
}

Result<std::vector<int32_t>> read_token_classes(const std::string& dir, const ModelConfig& config,
                                                const Tokenizer* tokenizer) {
  if (config.engram_layer_ids.empty()) return std::vector<int32_t>();
  if (std::filesystem::exists(dir + "/token_map.safetensors")) return read_token_map(dir, config);
  if (tokenizer == nullptr) {
    return error(
        Code::not_found,
        "{}: neither token_map.safetensors nor tokenizer.json, and the Engram layers need the one or the other", dir);
  }
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> map, engram_token_map(*tokenizer, config.vocab_size));
  int32_t classes = 0;
  for (const int32_t cls : map) classes = std::max(classes, cls + 1);
  if (classes != config.engram_compressed_vocab_size) {
    return invalid("{}/tokenizer.json: its ids fall into {} classes, text_config.engram_compressed_vocab_size is {}",
                   dir, classes, config.engram_compressed_vocab_size);
  }
  return map;
}

Result<SamplingParams> read_default_sampling(const std::string& dir) {
  SamplingParams params;
  const std::string path = dir + "/generation_config.json";
  if (!std::filesystem::exists(path)) return params;
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path, 1 << 20));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) return invalid("{}: not a JSON object", path);
  const auto number = [&](const char* field, auto& value) -> Status {
    const auto it = json.find(field);
    if (it == json.end() || it->is_null()) return {};
    if (!it->is_number()) return invalid("{}: {}: a number is expected", path, field);
    value = it->get<std::remove_reference_t<decltype(value)>>();
    return {};
  };
  DI_RETURN_IF_ERROR(number("temperature", params.temperature));
  DI_RETURN_IF_ERROR(number("top_p", params.top_p));
  DI_RETURN_IF_ERROR(number("top_k", params.top_k));
  if (const auto it = json.find("do_sample"); it != json.end()) {
    if (!it->is_boolean()) return invalid("{}: do_sample: true or false is expected", path);
    if (!it->get<bool>()) params.temperature = 0;
  }
  if (const Status status = params.validate(); !status.ok()) return invalid("{}: {}", path, status.message());
  return params;
}

}  // namespace deepinfer
