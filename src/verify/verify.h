// Golden directories of every kind: reads golden.json and hands over to the kind's check.
//
// Kinds    model, kernels, tokenizer, chat. protocol and maskbench are known, but belong to parts that this version does not
//          have: a skip says so. Any other kind is an error.
// Errors   a directory that cannot be read, named. Differences are failed rows of the reporter, not errors.
// Source   interfaces.md, "verify".
#pragma once

#include <string>

#include "base/status.h"
#include "verify/report.h"

namespace deepinfer {

struct VerifyOptions {
  std::string instruction_set;  // empty: the best of this machine
  int threads = 0;              // 0: one per core
  std::string tokenizer_tiny;   // tokenizer.json of the bundled model
  std::string tokenizer_v41;    // the released tokenizer.json; empty: its cases are skipped, with the reason
};

Status verify_directory(const std::string& dir, const VerifyOptions& options, Reporter& reporter);

}  // namespace deepinfer
