// What a model directory says besides weights: the tokenizer, the token map of the n-gram hash, and how its authors sample.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "deepinfer/sampling_params.h"
#include "deepinfer/tokenizer.h"

namespace deepinfer {

// dir/tokenizer.json; nothing if there is none.
Result<std::optional<Tokenizer>> read_tokenizer(const std::string& dir);

// Class of each token id: dir/token_map.safetensors if there (synthetic models), else derived from the tokenizer.
Result<std::vector<int32_t>> read_token_classes(const std::string& dir, const ModelConfig& config,
                                                const Tokenizer* tokenizer);

// dir/generation_config.json: do_sample (false: temperature 0), temperature, top_p, top_k. Without the file temperature 1, top_p 1.
Result<SamplingParams> read_default_sampling(const std::string& dir);

}  // namespace deepinfer
