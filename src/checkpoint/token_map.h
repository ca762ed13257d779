// The map from token ids to compressed ids of the Engram hash, as token_map.safetensors holds it (synthetic
// checkpoints; a real one derives it from its tokenizer, spec 8.1).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer {

// One entry a token id: I32 [vocab_size], values 0 .. engram_compressed_vocab_size - 1, each used at least once. Errors
// name the file and the token. `dir` is the model directory; not_found if it has no token map.
Result<std::vector<int32_t>> read_token_map(const std::string& dir, const ModelConfig& config);

}  // namespace deepinfer
