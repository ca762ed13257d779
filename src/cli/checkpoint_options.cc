// The command-line options of inspect and synth. Apart from the commands because the option parser is slow to compile.
#include <CLI/CLI.hpp>

#include "cli/inspect_command.h"
#include "cli/synth_command.h"

namespace deepinfer {

void add_inspect_options(CLI::App& command, InspectOptions& options) {
  command.add_flag("--check", options.check, "read every scale byte");
  command.add_flag("--tensors", options.tensors, "list every tensor");
  command.add_option("--max-batch", options.max_batch, "sequences, for the memory figures")->capture_default_str();
  command.add_option("--max-context", options.max_context,
                     "tokens a sequence, for the memory figures (default: max_position_embeddings)");
}

void add_synth_options(CLI::App& command, SynthCliOptions& options) {
  command.add_option("CONFIG", options.config_path, "config.json of the model")->required();
  command.add_option("OUT", options.out_dir, "directory to write; new or empty")->required();
  command
      .add_option("--layers", options.layers,
                  "only these layers, comma-separated and ascending; renumbered, with sources, Engram layers and taps")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--experts", options.experts, "routed experts a layer (draft stages: at most as many)")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}));
  command
      .add_option("--engram-rows", options.engram_rows,
                  "about so many Engram table rows a layer: the hash's primes start at N / columns")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 31));
  auto* shards =
      command.add_option("--shards", options.shards, "number of files, of about equal size")->check(CLI::Range(1, 800));
  command.add_option("--max-shard-bytes", options.max_shard_bytes, "largest file, unless one tensor is larger")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 50))
      ->excludes(shards);
  command.add_option("--name", options.name,
                     "name of the configuration, which the token map is drawn by (default: the file's name, or its "
                     "directory's for config*.json)");
  command.add_flag("--overwrite", options.overwrite, "replace what an earlier run wrote to OUT");
}

}  // namespace deepinfer
