// Manifest: the exact list of tensors that a configuration calls for, as the released checkpoint names and stores them,
// and for each the distribution of its synthetic values.
//
// Order: embedding, head, last norm, layers, draft stages, vision tower; a scale follows its weight. Pure function of
// the config, no state. Sources: spec sections 12 and 14 (names, dtypes, shapes), golden/SYNTH.md section 5
// (distributions).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"

namespace deepinfer {

// What a tensor belongs to; inspect adds bytes up by it.
enum class Part {
  embedding,  // token embedding
  head,       // output head and the last norm
  attention,  // projections, sinks, norms of a block
  compressor,
  indexer,
  hyper_connections,
  gate,
  routed_experts,
  shared_expert,
  engram,        // projections and gate weights of an Engram layer
  engram_table,  // its embedding table
  draft_head,    // what the draft stages have beyond a block: main_proj, markov_head, confidence_head, norms
  vision,        // switched off: expected in the checkpoint, never read
};
inline constexpr int kParts = static_cast<int>(Part::vision) + 1;
const char* part_name(Part part);

// How values become bytes (SYNTH.md section 4).
enum class Storage {
  bf16,
  f32,
  f8_tile,  // E4M3 with one scale per 32x32 tile
  f8_row,   // E4M3 with one scale per 32 of a row
  f4_row,   // two E2M1 a byte (I8) with one scale per 32 of a row
  scale,    // the E8M0 scale of the entry before it
  none,     // vision: no synthetic values
};

struct ManifestEntry {
  std::string name;
  DType dtype = DType::u8;
  std::vector<int64_t> shape;  // as stored: f4_row has half the columns
  Part part = Part::attention;
  int layer = -1;  // backbone layer, or -1
  int stage = -1;  // draft stage, or -1
  Storage storage = Storage::none;
  double mean = 0, std = 0;  // of the synthetic values, before block jitter

  int64_t elements() const;  // as stored
  int64_t bytes() const { return elements() * dtype_bytes(dtype); }
};

std::vector<ManifestEntry> manifest(const ModelConfig& config);

}  // namespace deepinfer
