// Rotary position embedding over the last `dim` values of each head; pairs are adjacent.
//
//   (a + ib) * (cos + i sin) in float32, rounded to bf16; inverse = conjugate.     Spec 3.
// Shapes   x [tokens, heads * head_dim] bf16 in place · table: cos and sin [tokens, dim / 2] float32.
//          half = 0: nothing turns (only the quantiser, if asked for). kv_store.h likewise.
// Rounding products and the sum in float32 (a*c - b*s, a*s + b*c), no fused multiply-add. Order: none.
//
// rope_table: angle = fl32(position * f_j), cos and sin of that float32 angle (numerics/math.h).
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct RopeTableArgs {
  const int64_t* positions = nullptr;
  int64_t count = 0;
  const float* frequencies = nullptr;  // [half]
  int64_t half = 0;
  float* cos = nullptr;  // [count, half]
  float* sin = nullptr;
};

struct RopeArgs {
  Rows<bf16> x;
  int64_t head_dim = 0;
  const float* cos = nullptr;  // [x.rows, half]
  const float* sin = nullptr;
  int64_t half = 0;
  bool inverse = false;
  bool fp4_block32 = false;  // afterwards quantise each head by fp4_block32 (index queries, spec 6.2)
};

}  // namespace deepinfer
