// Options that every command has, and what the environment sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "deepinfer/options.h"

namespace CLI {
class App;
}

namespace deepinfer {

struct Globals {
  std::string model_dir;  // --model, else DEEPINFER_HF_MODEL_DIR, else the bundled model
  std::string device = "cpu";
  int threads = 0;
  std::optional<uint64_t> seed;
  bool json = false;
  std::string instruction_set;

  // Exit codes: done; a check or a run failed; bad usage or bad input.
  static constexpr int kDone = 0, kFailed = 1, kUsage = 2;

  Result<ModelOptions> model_options() const;
};

// Registers --model, --device, --threads, --seed, --json and --instruction-set.
void add_global_options(CLI::App& command, Globals& globals);

// The directory of the model that comes with the program.
std::string bundled_model_dir();

// Reads DEEPINFER_* into the globals (a command-line option given later wins). A bad value is an error that names the variable; an unknown
// DEEPINFER_* variable is a warning that names it. docs/environment.md lists them.
Status read_environment(Globals& globals);

// Prints "deepinfer: <message>" on stderr and gives the exit code that fits the status.
int report(const Status& status);

}  // namespace deepinfer
