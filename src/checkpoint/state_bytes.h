// What a sequence's state takes, computed from the configuration alone: for inspect, for planning memory, and as a
// second account that the state layer's own sizes are tested against.
//
// All figures are bytes of the canonical layout, without page rounding. Sources: spec 2 (formats), 10 (what is kept),
// design ("State is a value": rings, carries and the n-gram tail keep max_rollback extra entries).
#pragma once

#include <cstdint>

#include "checkpoint/config.h"

namespace deepinfer {

struct StateBytes {
  // A compressed row of any KV source: fp4 codes and E4M3 scales of 16; index key: fp4 codes and E8M0 scales of 32.
  int64_t kv_row = 0, index_row = 0;
  // A window row: E4M3 codes and E8M0 scales of 32. Rings hold ring_rows of them, one ring a layer and one a draft
  // stage.
  int64_t window_row = 0, ring_rows = 0;
  int64_t layer_rings = 0, draft_rings = 0;  // of all layers, of all stages
  // Of all ratio-2 sources: the even ones of 1 + max_rollback positions, two float32 rows each.
  int64_t carries = 0;
  int64_t ngram_tail = 0;  // the last max_ngram - 1 + max_rollback compressed token ids, 4 bytes each
  // Sums.
  double per_token = 0;      // compressed rows and index keys that a context token adds (half a row a ratio-2 source)
  int64_t per_sequence = 0;  // whatever the length: rings (up to a multiple of 64), carries, tail
};

StateBytes state_bytes(const ModelConfig& config);
// Compressed rows and index keys of a sequence of so many tokens.
int64_t compressed_bytes(const ModelConfig& config, int64_t tokens);

}  // namespace deepinfer
