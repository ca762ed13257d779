#include "backend/cpu/gemm.h"

#include "backend/cpu/vec.h"
#include "base/planted.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

constexpr int64_t kTile = kSums >= 16 ? 4 : 2;            // weight rows that share registers
constexpr int64_t kTokens = kSums >= 16 ? 4 : kSums / 2;  // token rows that do
constexpr int64_t kChunk = 32;                            // inputs a step
constexpr int64_t kMinWork = 64 * 1024;                   // multiply-adds worth waking a thread for

// Decoders: 32 weights of a row, odd and even elements, scaled exactly.
struct Bf16Weights {
  const bf16* data;
  int64_t k;
  explicit Bf16Weights(const Matrix& w) : data(static_cast<const bf16*>(w.data)), k(w.k) {}
  void chunk(int64_t row, int64_t c, f32x16& odd, f32x16& even) const {
    const bf16* p = data + row * k + c * kChunk;
    if ((c + 1) * kChunk <= k) {
      split_bf16(p, odd, even);
    } else {
      bf16 padded[kChunk] = {};
      std::memcpy(padded, p, static_cast<size_t>(k - c * kChunk) * sizeof(bf16));
      split_bf16(padded, odd, even);
    }
  }
};

struct Fp8TileWeights {
  const uint8_t* data;
  const uint8_t* scale;
  int64_t k;
  explicit Fp8TileWeights(const Matrix& w) : data(static_cast<const uint8_t*>(w.data)), scale(w.scale), k(w.k) {}
  void chunk(int64_t row, int64_t c, f32x16& odd, f32x16& even) const {
    const u32x16 v = widen_u16(data + row * k + c * kChunk);
    if (planted(Fault::fp8_scale_index)) c = (c + 1) % (k / kChunk);
    const f32x16 s = splat(e8m0_to_float(scale[(row / 32) * (k / kChunk) + c]));
    even = decode_e4m3(v & 0xFFu) * s;
    odd = decode_e4m3(v >> 8) * s;
  }
};

struct Fp4RowWeights {
  const uint8_t* data;
  const uint8_t* scale;
  int64_t k;
  explicit Fp4RowWeights(const Matrix& w) : data(static_cast<const uint8_t*>(w.data)), scale(w.scale), k(w.k) {}
  void chunk(int64_t row, int64_t c, f32x16& odd, f32x16& even) const {
    const u32x16 v = widen_u8(data + (row * k + c * kChunk) / 2);
    if (planted(Fault::fp4_scale_index)) c = (c + 1) % (k / kChunk);
    const f32x16 s = splat(e8m0_to_float(scale[row * (k / kChunk) + c]));
    even = decode_e2m1(v & 0xFu) * s;
    odd = decode_e2m1(v >> 4) * s;
  }
};

// 32 inputs of a token row; the last chunk of a row may be short.
DI_INLINE void x_chunk(const bf16* x, int64_t k, int64_t c, f32x16& odd, f32x16& even) {
  if ((c + 1) * kChunk <= k) {
    split_bf16(x + c * kChunk, odd, even);
  } else {
    bf16 padded[kChunk] = {};
    std::memcpy(padded, x + c * kChunk, static_cast<size_t>(k - c * kChunk) * sizeof(bf16));
    split_bf16(padded, odd, even);
  }
}

DI_INLINE void put(const GemmJob& job, int64_t token, int64_t column, float value) {
  if (job.out_f32) {
    static_cast<float*>(job.out_rows[token])[column] = value;
  } else {
    static_cast<bf16*>(job.out_rows[token])[column] = to_bf16(value);
  }
}

// One token, R weight rows: weights go from memory to registers.
template <int R, typename W>
void one_token(const GemmJob& job, const W& w, int64_t row, int64_t chunks) {
  f32x16 sum[R] = {};
  const bf16* x = job.x_rows[0];
  for (int64_t c = 0; c < chunks; ++c) {
    f32x16 x_odd, x_even;
    x_chunk(x, job.w.k, c, x_odd, x_even);
    DI_UNROLL for (int r = 0; r < R; ++r) {
      f32x16 odd, even;
      w.chunk(job.first + row + r, c, odd, even);
      sum[r] = sum[r] + odd * x_odd;
      sum[r] = sum[r] + even * x_even;
    }
  }
  DI_UNROLL for (int r = 0; r < R; ++r) put(job, 0, row + r, sum_by_halves(sum[r]));
}

// T tokens, R weight rows already decoded to `decoded` [R][chunks][odd 16, even 16].
template <int R, int T>
void token_tile(const GemmJob& job, const float* decoded, int64_t row, int64_t token, int64_t chunks) {
  f32x16 sum[R][T] = {};
  for (int64_t c = 0; c < chunks; ++c) {
    f32x16 x_odd[T], x_even[T];
    DI_UNROLL for (int t = 0; t < T; ++t) x_chunk(job.x_rows[token + t], job.w.k, c, x_odd[t], x_even[t]);
    DI_UNROLL for (int r = 0; r < R; ++r) {
      const float* p = decoded + (r * chunks + c) * kChunk;
      const f32x16 odd = load<f32x16>(p);
      const f32x16 even = load<f32x16>(p + 16);
      DI_UNROLL for (int t = 0; t < T; ++t) {
        sum[r][t] = sum[r][t] + odd * x_odd[t];
        sum[r][t] = sum[r][t] + even * x_even[t];
      }
    }
  }
  DI_UNROLL for (int r = 0; r < R; ++r) {
    DI_UNROLL for (int t = 0; t < T; ++t) put(job, token + t, row + r, sum_by_halves(sum[r][t]));
  }
}

template <int R, typename W>
void weight_tile(const GemmJob& job, const W& w, int64_t row, float* decoded) {
  const int64_t chunks = (job.w.k + kChunk - 1) / kChunk;
  if (job.count == 1) {
    one_token<R>(job, w, row, chunks);
    return;
  }
  DI_UNROLL for (int r = 0; r < R; ++r) {
    for (int64_t c = 0; c < chunks; ++c) {
      f32x16 odd, even;
      w.chunk(job.first + row + r, c, odd, even);
      float* p = decoded + (r * chunks + c) * kChunk;
      store(p, odd);
      store(p + 16, even);
    }
  }
  int64_t token = 0;
  for (; token + kTokens <= job.count; token += kTokens) token_tile<R, kTokens>(job, decoded, row, token, chunks);
  for (; token < job.count; ++token) token_tile<R, 1>(job, decoded, row, token, chunks);
}

template <typename W>
void tiles(const GemmJob& job, int64_t begin, int64_t end, float* decoded) {
  const W w(job.w);
  int64_t row = begin * kTile;
  const int64_t last = end * kTile < job.rows ? end * kTile : job.rows;
  for (; row + kTile <= last; row += kTile) weight_tile<kTile>(job, w, row, decoded);
  for (; row < last; ++row) weight_tile<1>(job, w, row, decoded);
}

DI_INLINE int64_t tiles_of(const GemmJob& job) { return job.count == 0 ? 0 : (job.rows + kTile - 1) / kTile; }

}  // namespace

void run_gemm_jobs(Context& context, const GemmJob* jobs, int64_t count) {
  int64_t total = 0, work = 0;
  for (int64_t j = 0; j < count; ++j) {
    total += tiles_of(jobs[j]);
    work += jobs[j].rows * jobs[j].count * jobs[j].w.k;
  }
  if (total == 0) return;
  const int64_t grain = total * kMinWork / (work + 1) + 1;
  context.pool->parallel_for(total, grain, [&](int64_t begin, int64_t end, int thread) {
    float* decoded = reinterpret_cast<float*>(context.scratch_of(thread));
    int64_t offset = 0;  // tiles before job j
    for (int64_t j = 0; j < count && offset < end; ++j) {
      const int64_t here = tiles_of(jobs[j]);
      const int64_t from = begin > offset ? begin - offset : 0;
      const int64_t to = end - offset < here ? end - offset : here;
      if (from < to) {
        switch (jobs[j].w.kind) {
          case WeightKind::bf16:
            tiles<Bf16Weights>(jobs[j], from, to, decoded);
            break;
          case WeightKind::fp8_tile:
            tiles<Fp8TileWeights>(jobs[j], from, to, decoded);
            break;
          case WeightKind::fp4_row:
            tiles<Fp4RowWeights>(jobs[j], from, to, decoded);
            break;
        }
      }
      offset += here;
    }
  });
}

}  // namespace deepinfer::DI_ISA
