// Golden kind "kernels": holds the operations of one table of kernels to vectors of single operations.
//
// Every quantity goes through the operation that the engine runs (ops/*.h), with arguments chosen so that the golden inputs reach it unchanged;
// only number conversions and two factors that no operation holds are computed from numerics/. Shapes come from the tensors, so other
// seeds and sizes of the same files need no change here.
//
// Names    FILE/PREFIX, e.g. "gemm/fp8_1", "sparse_attn/real"; FILE alone for what is counted over all of a file.
// Level    2. Limits and quantities: golden/README.md, "Kernel vectors". A file that is not there is a skip.
// Threading the caller's; `context` needs kVerifyKernelsArenaBytes of arena and kVerifyKernelsThreadBytes of scratch a thread.
// Errors   a directory, file or tensor that cannot be read or has other shapes than its kind calls for; differences are failed rows.
#pragma once

#include <string>

#include "backend/kernels.h"
#include "base/status.h"
#include "verify/report.h"

namespace deepinfer {

inline constexpr int64_t kVerifyKernelsArenaBytes = int64_t{64} << 20;
inline constexpr int64_t kVerifyKernelsThreadBytes = int64_t{8} << 20;

Status verify_kernels(const std::string& dir, const Kernels& kernels, Context& context, Reporter& reporter);

}  // namespace deepinfer
