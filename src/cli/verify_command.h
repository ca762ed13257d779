// deepinfer verify: holds this build to golden directories.
//
// Exit codes: 0 every check held, 1 one failed, 2 bad usage, a directory that cannot be read, or nothing that matches --only.
#pragma once

#include <string>
#include <vector>

#include "cli/globals.h"

namespace CLI {
class App;
}

namespace deepinfer {

struct VerifyCliOptions {
  std::vector<std::string> directories;
  bool keep_going = false;
  std::string only;
  std::string tokenizer_v41;
};

void add_verify_options(CLI::App& command, VerifyCliOptions& options);
int run_verify(const VerifyCliOptions& options, const Globals& globals);

}  // namespace deepinfer
