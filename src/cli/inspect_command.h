// deepinfer inspect: what a model directory holds, by config.json and, where there are weights, by its files.
//
// Errors: exit 2 with a message that names the file, tensor, field or option; exit 1 if --check finds a NaN scale.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace CLI {
class App;
}

namespace deepinfer {

struct InspectOptions {
  std::string model_dir;    // a directory with config.json, with or without weights; or a config.json itself
  bool json = false;        // one JSON document on one line
  bool check = false;       // read every scale byte
  bool tensors = false;     // list every tensor: name, dtype, shape, bytes
  int64_t max_batch = 1;    // sequences, for the memory figures
  int64_t max_context = 0;  // tokens a sequence; 0: max_position_embeddings
};

// Registers the options that are inspect's own (not --model, --json).
void add_inspect_options(CLI::App& command, InspectOptions& options);
struct Inspection {
  std::string text;  // the report, ending in a newline
  Status check;      // what --check found; ok without it
};
Result<Inspection> inspect_model(const InspectOptions& options);
// Prints the report, problems on stderr; the exit code of the process.
int run_inspect(const InspectOptions& options);

}  // namespace deepinfer
