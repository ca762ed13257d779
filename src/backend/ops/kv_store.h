// Rows of the sequence state: window rows, compressed rows, index keys, and the ratio-2 pooling before them.
//
// window_rows   per token: kv = rmsnorm(kv), RoPE on the last dims, act_quant, stored as a window row (quantize.h).      Spec 5.2
// pool_pairs    per pair of tokens and channel: softmax over (z_0, z_1), u = w_0 * k_0 + w_1 * k_1 (float32), bf16.       Spec 5.3
// compress_rows per latent (after its norm): RoPE at position j * ratio, fp4_block16, stored as a compressed row; and from
//               the indexer's key projection: rmsnorm, RoPE on the last dims, fp4_block32, stored as an index key row.        Spec 5.3, 6.1
// ring_store    per run: its last `ring_rows` window rows go to the ring slots of their positions (position mod ring_rows); older ones are
//               not live any more. Runs after attention, which still reads the slots that it overwrites.
// Rounding as spec 2 and 3; softmax: m = max, e_i = exp32(z_i - m), e_i / (e_0 + e_1).
// Limits   d % 16 == 0 for pool_pairs; head dims as in quantize.h.
// Order    none across rows; norms as in norm.h.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct WindowRowsArgs {
  Rows<const bf16> kv;  // [tokens, head_dim], the projection
  const bf16* norm_weight = nullptr;
  float eps = 0;
  const float* cos = nullptr;  // [tokens, half]
  const float* sin = nullptr;
  int64_t half = 0;
  std::byte* out = nullptr;  // [tokens] window rows, consecutive
};

struct PoolPairsArgs {
  int64_t pairs = 0;
  int64_t d = 0;
  // Per pair: the projections of its two tokens (the first may be a carry).
  const float* const* k0 = nullptr;
  const float* const* z0 = nullptr;
  const float* const* k1 = nullptr;
  const float* const* z1 = nullptr;
  Rows<bf16> out;
};

struct CompressRowsArgs {
  Rows<const bf16> latent;     // [rows, head_dim], normalised, unrotated
  Rows<const bf16> index_key;  // [rows, index_head_dim], the projection wk . latent
  const bf16* key_norm_weight = nullptr;
  float eps = 0;
  const int64_t* positions = nullptr;  // [rows] j * ratio
  const float* frequencies = nullptr;  // [half]
  int64_t half = 0;
  std::byte* const* kv_out = nullptr;   // [rows] where each compressed row goes
  std::byte* const* key_out = nullptr;  // [rows] where each index key row goes
};

struct RingStoreArgs {
  const RunView* runs = nullptr;
  int64_t run_count = 0;
  const std::byte* step_rows = nullptr;  // window rows of the step's tokens
  int64_t row_bytes = 0;
  std::byte* const* rings = nullptr;  // [runs]
  int64_t ring_rows = 0;
};

}  // namespace deepinfer
