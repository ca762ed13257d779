// Engram: the n-gram hash, the table look-up and the gated write into the residual stream.
//
// hash   t_k = class of the token k positions back, or pad once that position is before the sequence or any token up to there takes no part
//        (image tokens, class -1); r = t_0 * m_0, then r ^= t_i * m_i; id[i-1][h] = r mod prime + offset. Unsigned 64-bit.        Spec 8.4
// gather 24 rows of E4M3 codes and per-32 scales -> bf16 (exact), [n][head] order.                                              Spec 8.5
// write  per copy c: rstd = rsqrt(mean X_c^2 + eps) * rsqrt(mean key_c^2 + eps); dot = sum(X_c * (qw * kw) * key_c) * rstd * d^-0.5;
//        g = sigmoid(copysign(sqrt(max(|dot|, 1e-6)), dot)), 0 for image tokens; X_c = bf16(X_c + g * value).                     Spec 8.5
// Shapes classes [tokens] int32 with a tail of max_ngram - 1 before each run · ids [tokens, columns] int64 · rows [tokens, columns * head_dim]
//        kv [tokens, 5 * d] bf16 (4 keys, then the value) · x [tokens, 4 * d] bf16 in place · gate [tokens, 4] float32.
// Limits d % 16 == 0, head_dim % 32 == 0. A scale byte of 0 (2^-127, a denormal) counts as zero.
// Order  sums: 16 partial sums, lane = index mod 16, added by halves.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

struct EngramHashArgs {
  // classes[r] points at run r's first token; max_ngram - 1 entries before it are the tokens before the run (-2: before the sequence).
  const int32_t* const* classes = nullptr;
  const RunView* runs = nullptr;
  int64_t run_count = 0;
  int64_t max_ngram = 0;
  int64_t heads = 0;
  const uint64_t* multipliers = nullptr;
  const uint64_t* primes = nullptr;
  const uint64_t* offsets = nullptr;
  int32_t pad_class = 0;
  Rows<int64_t> ids;
};

struct EngramGatherArgs {
  Rows<const int64_t> ids;
  const uint8_t* codes = nullptr;   // [rows, head_dim]
  const uint8_t* scales = nullptr;  // [rows, head_dim / 32]
  int64_t head_dim = 0;
  Rows<bf16> out;
};

struct EngramWriteArgs {
  Rows<bf16> x;
  int64_t d = 0;
  Rows<const bf16> kv;
  const bf16* q_weight = nullptr;  // [4, d]
  const bf16* k_weight = nullptr;
  float eps = 0;
  const uint8_t* image = nullptr;
  float* gate = nullptr;  // [tokens, 4]
};

}  // namespace deepinfer
