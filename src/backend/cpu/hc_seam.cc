#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

// Sixteen bf16 at index i of a row of d, zero beyond its end; and the matching store.
DI_INLINE f32x16 load_part(const bf16* x, int64_t i, int64_t d) {
  if (i + 16 <= d) return load_bf16(x + i);
  bf16 padded[16] = {};
  std::memcpy(padded, x + i, static_cast<size_t>(d - i) * sizeof(bf16));
  return load_bf16(padded);
}
DI_INLINE void store_part(bf16* x, int64_t i, int64_t d, f32x16 v) {
  if (i + 16 <= d) {
    store_bf16(x + i, v);
    return;
  }
  bf16 padded[16];
  store_bf16(padded, v);
  std::memcpy(x + i, padded, static_cast<size_t>(d - i) * sizeof(bf16));
}

void leave(const HcSeamArgs& args, int64_t t) {
  bf16* x = args.x.row(t);
  const bf16* y = args.y.row(t);
  const float* post = args.left.post + t * kHcMult;
  const float* comb = args.left.comb + t * kHcMult * kHcMult;
  const int64_t d = args.d;
  for (int64_t i = 0; i < d; i += 16) {
    f32x16 in[kHcMult];
    for (int64_t c = 0; c < kHcMult; ++c) in[c] = load_part(x + c * d, i, d);
    const f32x16 sub = load_part(y, i, d);
    for (int64_t j = 0; j < kHcMult; ++j) {
      f32x16 sum = splat(comb[j]) * in[0];
      for (int64_t c = 1; c < kHcMult; ++c) sum = sum + splat(comb[c * kHcMult + j]) * in[c];
      store_part(x + j * d, i, d, splat(post[j]) * sub + sum);
    }
  }
}

void write_tap(const HcSeamArgs& args, int64_t t) {
  const bf16* x = args.x.row(t);
  for (int64_t i = 0; i < args.d; i += 16) {
    f32x16 sum = load_part(x, i, args.d);
    for (int64_t c = 1; c < kHcMult; ++c) sum = sum + load_part(x + c * args.d, i, args.d);
    store_part(args.tap.row(t), i, args.d, sum * splat(0.25f));
  }
}

void collapse(const HcSeamArgs& args, int64_t t, bf16* buffer) {
  const bf16* x = args.x.row(t);
  const float* pre = args.pre_in + t * kHcMult;
  const int64_t d = args.d;
  bf16* out = args.collapsed.data != nullptr ? args.collapsed.row(t) : buffer;
  for (int64_t i = 0; i < d; i += 16) {
    f32x16 sum = splat(pre[0]) * load_part(x, i, d);
    for (int64_t c = 1; c < kHcMult; ++c) sum = sum + splat(pre[c]) * load_part(x + c * d, i, d);
    store_part(out, i, d, sum);
  }
  rms_norm_row(out, args.norm_weight, args.norm_eps, args.h.row(t), d);
  if (args.hq.data != nullptr) act_quant_row(args.h.row(t), args.hq.row(t), d);
}

// Sums fn rows [begin, end) for token t; lane = index mod 16 over all 4 * d values.
DI_INLINE void mix_dots(const HcSeamArgs& args, int64_t t, int64_t begin, int64_t end, float* mixes) {
  const int64_t n = kHcMult * args.d;  // a multiple of 16: the engine asks for d % 32 == 0
  const bf16* x = args.x.row(t);
  constexpr int64_t kRows = kSums > 8 ? 8 : kSums;  // divides the 8 of a part
  for (int64_t m = begin; m < end; m += kRows) {
    f32x16 sum[kRows] = {};
    for (int64_t i = 0; i < n; i += 16) {
      const f32x16 v = load_bf16(x + i);
      DI_UNROLL for (int64_t r = 0; r < kRows; ++r) sum[r] = sum[r] + load<f32x16>(args.fn + (m + r) * n + i) * v;
    }
    DI_UNROLL for (int64_t r = 0; r < kRows; ++r) mixes[m + r] = sum_by_halves(sum[r]);
  }
}

// Spec 4.1, steps 3 to 6.
void finish_mixes(const HcSeamArgs& args, int64_t t, const float* dots) {
  const float r = reciprocal_sqrt(mean_square(args.x.row(t), kHcMult * args.d) + args.norm_eps);
  float m[kHcMixes];
  for (int64_t i = 0; i < kHcMixes; ++i) m[i] = dots[i] * r;
  if (args.mixes.data != nullptr) std::memcpy(args.mixes.row(t), m, sizeof(m));
  float* pre = args.entered.pre + t * kHcMult;
  float* post = args.entered.post + t * kHcMult;
  float* comb = args.entered.comb + t * kHcMult * kHcMult;
  for (int64_t i = 0; i < kHcMult; ++i) {
    pre[i] = sigmoid(m[i] * args.scale[0] + args.base[i]) + args.hc_eps;
    post[i] = 2.0f * sigmoid(m[kHcMult + i] * args.scale[1] + args.base[kHcMult + i]);
  }
  float c[kHcMult][kHcMult];
  for (int64_t i = 0; i < kHcMult; ++i) {
    float largest = -__builtin_huge_valf(), sum = 0.0f;
    for (int64_t j = 0; j < kHcMult; ++j) {
      const int64_t k = 2 * kHcMult + kHcMult * i + j;
      c[i][j] = m[k] * args.scale[2] + args.base[k];
      if (c[i][j] > largest) largest = c[i][j];
    }
    for (int64_t j = 0; j < kHcMult; ++j) sum = sum + (c[i][j] = exp32(c[i][j] - largest));
    for (int64_t j = 0; j < kHcMult; ++j) c[i][j] = c[i][j] / sum + args.hc_eps;
  }
  for (int64_t round = planted(Fault::sinkhorn_rounds) ? 1 : 0; round < args.iterations; ++round) {
    for (int64_t i = 0; i < kHcMult && round > 0; ++i) {
      const float sum = ((c[i][0] + c[i][1]) + c[i][2]) + c[i][3];
      for (int64_t j = 0; j < kHcMult; ++j) c[i][j] = c[i][j] / (sum + args.hc_eps);
    }
    for (int64_t j = 0; j < kHcMult; ++j) {
      const float sum = ((c[0][j] + c[1][j]) + c[2][j]) + c[3][j];
      for (int64_t i = 0; i < kHcMult; ++i) c[i][j] = c[i][j] / (sum + args.hc_eps);
    }
  }
  for (int64_t i = 0; i < kHcMult * kHcMult; ++i) {
    comb[i] = planted(Fault::comb_transposed) ? c[i % kHcMult][i / kHcMult] : c[i / kHcMult][i % kHcMult];
  }
}

}  // namespace

void hc_seam(Context& context, const HcSeamArgs& args) {
  const int64_t tokens = args.x.rows;
  const bool enters = args.fn != nullptr;
  const int64_t mark = context.arena->mark();
  float* dots = enters ? context.arena->take<float>(tokens * kHcMixes) : nullptr;
  context.pool->parallel_for(tokens, 8192 / (args.d + 1) + 1, [&](int64_t begin, int64_t end, int thread) {
    for (int64_t t = begin; t < end; ++t) {
      if (args.y.data != nullptr) leave(args, t);
      if (args.tap.data != nullptr) write_tap(args, t);
      if (args.pre_in != nullptr) collapse(args, t, reinterpret_cast<bf16*>(context.scratch_of(thread)));
    }
  });
  if (enters) {
    // Tokens and groups of eight mixes are independent: one token still fills several threads.
    constexpr int64_t kParts = kHcMixes / 8;
    context.pool->parallel_for(tokens * kParts, 8192 / (args.d + 1) + 1, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i % kParts;
        mix_dots(args, i / kParts, part * 8, part * 8 + 8, dots + (i / kParts) * kHcMixes);
      }
    });
    context.pool->parallel_for(tokens, 16, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) finish_mixes(args, t, dots + t * kHcMixes);
    });
  }
  context.arena->release(mark);
}

}  // namespace deepinfer::DI_ISA
