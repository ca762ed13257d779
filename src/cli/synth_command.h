// deepinfer synth CONFIG.json OUT: a synthetic checkpoint (golden/SYNTH.md) of a configuration or of a part of it.
//
// Errors: exit 2 for a configuration or option that is not accepted, exit 1 if writing fails. Progress goes to stderr.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace deepinfer {

struct SynthCliOptions {
  std::string config_path, out_dir;
  std::string name;  // of the token map's stream; empty: synth_config_name(config_path)
  uint64_t seed = 1;
  std::vector<int> layers;               // empty: all
  int64_t experts = 0, engram_rows = 0;  // 0: unchanged
  int64_t shards = 0, max_shard_bytes = 5'000'000'000;
  bool overwrite = false;
  bool json = false;  // the summary as one JSON line
  int threads = 0;    // 0: as many as the machine has
};

// The name a configuration goes by: the file's name up to the first '_' ("nano.json", "wide_c96.json"); for files
// called config*.json the name of their directory, or of the one above if that is "checkpoint".
std::string synth_config_name(const std::string& config_path);

// Registers CONFIG, OUT and the options that are synth's own (not --json, --threads, --seed).
void add_synth_options(CLI::App& command, SynthCliOptions& options);
int run_synth(const SynthCliOptions& options);

}  // namespace deepinfer
