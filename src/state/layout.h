// StateLayout: where everything that a sequence owns lies, in bytes, derived once from the configuration.
//
// A sequence owns, apart from its compressed rows (in pages): a ring of window rows per backbone layer and draft stage, a ring of carries
// per ratio-2 source, and the last n-gram classes. Rings hold `rollback` more entries than are live, so that rejected drafts can be rolled
// back by moving a counter. Row formats: backend/ops/quantize.h. Source: spec 10, design section 1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "checkpoint/config.h"

namespace deepinfer {

// One KV source: a layer that compresses `ratio` tokens to a row.
struct SourceLayout {
  int layer = 0;
  int ratio = 1;
  int64_t carry_offset = -1;  // of its carry ring in the fixed block; -1 for ratio 1
};

struct StateLayout {
  int64_t window = 0;     // live rows of a ring
  int64_t rollback = 0;   // positions that truncate() can take back
  int64_t ring_rows = 0;  // window + rollback; slot = position mod ring_rows
  int64_t head_dim = 0;
  int64_t window_row_bytes = 0;
  int64_t layers = 0;        // backbone rings
  int64_t draft_stages = 0;  // draft rings behind them; 0 when the model runs without drafts
  int decoder_start = -1;    // first layer whose window a replayed prefill cuts off; -1: this model cannot be replayed
  std::vector<SourceLayout> sources;
  int64_t kv_row_bytes = 0;      // of a compressed row
  int64_t key_row_bytes = 0;     // of an index key row
  int64_t page_rows = 64;        // rows of a page
  int64_t carry_rows = 0;        // even positions kept per ratio-2 source; slot = (position / 2) mod carry_rows
  int64_t carry_row_floats = 0;  // k, then z
  int64_t tail_live = 0;         // classes before the next token that the n-gram hash reads
  int64_t tail_rows = 0;         // slot = position mod tail_rows
  int64_t tail_offset = 0;
  int64_t fixed_bytes = 0;  // rings, carries and tail of one sequence

  static std::shared_ptr<const StateLayout> make(const ModelConfig& config, bool drafts);

  int64_t ring_bytes() const { return ring_rows * window_row_bytes; }
  int64_t page_bytes() const { return page_rows * (kv_row_bytes + key_row_bytes); }
  int64_t rings() const { return layers + draft_stages; }
  // Pages of all sources for `tokens` positions.
  int64_t pages_for(int64_t tokens) const;
  // Index into sources of a layer that owns compressed rows; -1 if it does not.
  int source_of(int layer) const;
};

}  // namespace deepinfer
