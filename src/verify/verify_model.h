// Golden kind "model": holds the engine to cases of whole models, at all levels of golden/README.md that a case has tensors for.
//
// Levels   1 weights, 3 to 7 golden inputs into sublayers and layers, 8 prompts, 9 decoding, 10 drafts, 11 bounded replay
//          (2 is the kind "kernels"). Limits are the README's; where it gives two, the tighter.
// Names    those of index.json, also as DIRECTORY/NAME for `only`; "weights" for level 1.
// Weights  checkpoint/ of the directory, else made by the rule of SYNTH.md with index.json's seed in a temporary directory.
// Errors   a directory, index or configuration that cannot be read. A case with tensors that cannot be read or have other
//          shapes than its configuration calls for is a failed row.
// Source   golden/README.md.
#pragma once

#include <string>

#include "base/status.h"
#include "verify/report.h"

namespace deepinfer {

struct VerifyModelOptions {
  std::string instruction_set;  // empty: the best of this machine
  int threads = 0;              // 0: one per core
  int step_tokens = 512;        // tokens of the largest step: prompts beyond it run in several
};

Status verify_model(const std::string& dir, const VerifyModelOptions& options, Reporter& reporter);

}  // namespace deepinfer
