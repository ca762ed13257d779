// Embedding into the residual stream: all four copies of token t's stream are its embedding row (spec 4).
//
// Shapes   tokens [t] int32 · table [vocab, d] bf16 · x [t, 4 * d] bf16 · pre [t, 4] float32 = (1, 0, 0, 0).
// Limits   tokens are in the vocabulary: the caller has checked.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct EmbedArgs {
  const int32_t* tokens = nullptr;
  int64_t count = 0;
  const bf16* table = nullptr;
  Rows<bf16> x;
  float* pre = nullptr;
};

}  // namespace deepinfer
