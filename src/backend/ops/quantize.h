// Activation quantisers, as fake quantisation (bf16 in, bf16 values on the coarse grid out) and as stored codes.
//
// act_quant    per 32 values: s = 2^ceil(log2(max(amax, 1e-4) / 448)), x = e4m3(x / s) * s.      Spec 2.2.
// fp4_block32  per 32 values: s = 2^ceil(log2(max(amax, 6 * 2^-126) / 6)), x = e2m1(x / s) * s.     Spec 2.3 (index queries, keys).
// fp4_block16  per 16 values: s = e4m3(max(amax, 6 * 2^-9) / 6), x = e2m1(clamp(x / s, +-6)) * s.    Spec 2.4 (compressed rows).
// Rounding exact apart from the quantisation itself. Order: none, rows are independent.
// Limits   cols % 32 == 0 (16 for fp4_block16).
//
// Stored rows (also the canonical bytes of a sequence's state; d values):
//   window row      d E4M3 codes, then d/32 E8M0 scales
//   index key row   d/2 bytes of two E2M1 (even element low), then d/32 E8M0 scales
//   compressed row  d/2 bytes of two E2M1, then d/16 E4M3 scales
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

constexpr int64_t window_row_bytes(int64_t d) { return d + d / 32; }
constexpr int64_t index_row_bytes(int64_t d) { return d / 2 + d / 32; }
constexpr int64_t compressed_row_bytes(int64_t d) { return d / 2 + d / 16; }

struct ActQuantArgs {
  Rows<const bf16> x;
  Rows<bf16> out;  // may be x
};

}  // namespace deepinfer
