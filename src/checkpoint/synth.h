// Synthetic checkpoints: the bytes are a function of (configuration, seed) alone, whatever the shards, threads or
// machine.
//
// Source: golden/SYNTH.md (docs of the rule), which the golden data was made with. Memory: a few MB a thread; shards
// are streamed. Errors: the operating system's, naming the file. A directory is only ever complete or without
// config.json.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "checkpoint/config.h"
#include "checkpoint/manifest.h"

namespace deepinfer {

// The bytes of one tensor and, for quantised storage, of its scale (the entry after it); otherwise `scale` is empty.
// Sizes must be those of the entries. Any number of threads may make tensors at the same time.
void synth_tensor(const ManifestEntry& entry, uint64_t seed, std::span<std::byte> out, std::span<std::byte> scale);

// A part of a tensor: units [begin, end) of synth_units(entry). A unit is an element (bf16, f32), a block of 32 along a
// row (f8_row, f4_row) or a band of 32 rows (f8_tile). `out` and `scale` hold the part alone.
int64_t synth_units(const ManifestEntry& entry);
void synth_part(const ManifestEntry& entry, uint64_t seed, int64_t begin, int64_t end, std::byte* out,
                std::byte* scale);

// token id -> compressed id, every one of engram_compressed_vocab_size classes used, numbered by first appearance; the
// stream is named by the configuration's name ("nano", "odd", "wide" in the golden data) and has no seed.
std::vector<int32_t> synth_token_map(const ModelConfig& config, const std::string& config_name);

// What is changed in a configuration before weights are made from it.
struct SynthChanges {
  std::vector<int> layers;  // these layers, ascending, renumbered 0, 1, ..; empty: all
  int64_t experts = 0;      // routed experts a layer; draft stages keep theirs, but at most as many; 0: unchanged
  int64_t engram_rows = 0;  // about so many table rows a layer (primes chosen anew, see synth_config); 0: unchanged
};

// The resulting configuration. Layers: ratios, KV, index and candidate sources, Engram layers and taps are mapped
// along. A layer whose source is not among them is an error; Engram layers not among them are dropped; if every tap is
// among them taps follow their layers, otherwise each keeps its distance from the last layer. engram_rows N:
// engram_vocab_size becomes N / ((max_ngram - 1) * heads), rounded down, at least 1. engram_num_embeddings is always
// the sum of the primes that result. vision_config is dropped: there are no synthetic vision tensors.
Result<ModelConfig> synth_config(const ModelConfig& config, const SynthChanges& changes);

struct SynthOptions {
  std::string config_name;  // names the token map's stream
  uint64_t seed = 1;
  std::string out_dir;                      // created if missing; otherwise it must be empty, or overwrite set
  bool overwrite = false;                   // replace what an earlier run wrote there
  int64_t shards = 0;                       // exactly so many files of about equal size; 0: as max_shard_bytes says
  int64_t max_shard_bytes = 5'000'000'000;  // a file holds at most this, or one tensor
  int threads = 1;
  std::function<void(int64_t done_bytes, int64_t total_bytes)>
      progress;  // called now and then, from any thread, one at a time
};

struct SynthSummary {
  int64_t tensors = 0, bytes = 0, files = 0;
};

// Writes config.json, model*.safetensors, model.safetensors.index.json and token_map.safetensors. Everything is written
// under temporary names and renamed at the end, config.json last. Files are not flushed to the disk: after a power
// failure, make them again.
Result<SynthSummary> synthesize(const ModelConfig& config, const SynthOptions& options);

}  // namespace deepinfer
