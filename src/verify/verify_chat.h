// Golden kind "chat": holds prompts to the cases of a golden/chat directory.
//
// Levels    prompt (bytes that differ), special_ranges (ranges that differ). Every limit is 0. What differs first is said on
//           standard error.
// Names     chat/KIND/LINE with the line of the file, e.g. "chat/encode/17". Cases of kind `parse` are reported as skipped.
// Errors    a directory, file or line that cannot be read, named; differences are failed rows, not errors.
// Source    golden/chat/README.md
#pragma once

#include <string>

#include "base/status.h"
#include "verify/report.h"

namespace deepinfer {

Status verify_chat(const std::string& dir, Reporter& reporter);

}  // namespace deepinfer
