// Constants of the Engram hash, which no checkpoint holds: primes, table offsets and multipliers (spec 8.2, 8.3).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"

namespace deepinfer {

// Of one Engram layer.
struct EngramConstants {
  std::vector<uint64_t> multipliers;  // [max_ngram], odd, up to 2^63: never through a double
  std::vector<uint64_t> primes;       // [(max_ngram - 1) * heads], by n-gram size, then head
  std::vector<uint64_t> offsets;      // exclusive prefix sums of the primes: first table row of each column
  uint64_t rows = 0;                  // sum of the primes = rows of the table
};

// Of each engram layer, the primes alone: synthetic configurations derive engram_num_embeddings from them.
std::vector<std::vector<uint64_t>> engram_primes(const ModelConfig& config);
// Of one layer number; depends on engram_compressed_vocab_size and engram_max_ngram_size only.
std::vector<uint64_t> engram_multipliers(int layer, const ModelConfig& config);

// One entry per engram layer, in order of engram_layer_ids. Primes not adding up to engram_num_embeddings are an error
// that names the field.
Result<std::vector<EngramConstants>> engram_constants(const ModelConfig& config);

}  // namespace deepinfer
