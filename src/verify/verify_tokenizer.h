// Golden kind "tokenizer": holds tokenizers to a golden/tokenizer directory.
//
// Levels   ids, ids_plain, pieces (numbers that differ), decode (bytes that differ), stream (steps that emit anything
// but the
//          expected text so far, or less than all of it in the end), sweeps (digests that differ), engram (entries of
//          the token map that differ). Every limit is 0. What differs first is said on standard error.
// Names    TOKENIZER/CASE, e.g. "tiny/ascii/1", "v41/sweeps/vocabulary", "tiny/engram-map"; `only` also matches without
// the
//          tokenizer's name.
// Errors   a directory or tokenizer that cannot be read; differences are failed rows, not errors.
// Source   golden/tokenizer/README.md.
#pragma once

#include <string>

#include "base/status.h"
#include "verify/report.h"

namespace deepinfer {

// `tiny_path`: the bundled model's tokenizer.json; `v41_path`: the released one, empty if there is none (its cases are
// skipped, and that is reported).
Status verify_tokenizer(const std::string& dir, const std::string& tiny_path, const std::string& v41_path,
                        Reporter& reporter);

}  // namespace deepinfer
