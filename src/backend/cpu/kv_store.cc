#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

// cos and sin of one position.
DI_INLINE void rope_row(int64_t position, const float* frequencies, int64_t half, float* cos, float* sin) {
  for (int64_t j = 0; j < half; ++j) sincos(static_cast<float>(position) * frequencies[j], cos[j], sin[j]);
}

DI_INLINE void pack_nibbles(const uint8_t* codes, uint8_t* out, int count) {
  for (int i = 0; i < count; i += 2) out[i / 2] = static_cast<uint8_t>(codes[i] | (codes[i + 1] << 4));
}

}  // namespace

void window_rows(Context& context, const WindowRowsArgs& args) {
  const int64_t d = args.kv.cols;
  context.pool->parallel_for(args.kv.rows, 8, [&](int64_t begin, int64_t end, int thread) {
    bf16* row = reinterpret_cast<bf16*>(context.scratch_of(thread));
    for (int64_t t = begin; t < end; ++t) {
      rms_norm_row(args.kv.row(t), args.norm_weight, args.eps, row, d);
      rope_head(row, d, args.cos + t * args.half, args.sin + t * args.half, args.half, 1.0f);
      uint8_t* codes = reinterpret_cast<uint8_t*>(args.out) + t * window_row_bytes(d);
      for (int64_t b = 0; b < d; b += 32) codes[d + b / 32] = quantize_e4m3_block(row + b, codes + b);
    }
  });
}

void pool_pairs(Context& context, const PoolPairsArgs& args) {
  context.pool->parallel_for(args.pairs, 8, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < args.d; i += 16) {  // head_dim is a multiple of 32
        const f32x16 z0 = load<f32x16>(args.z0[p] + i), z1 = load<f32x16>(args.z1[p] + i);
        const f32x16 m = select(z0 > z1, z0, z1);
        const bool mean = planted(Fault::pooling_gate);
        const f32x16 e0 = mean ? splat(1.0f) : exp32x16(z0 - m), e1 = mean ? splat(1.0f) : exp32x16(z1 - m);
        const f32x16 sum = e0 + e1;
        const f32x16 u = (e0 / sum) * load<f32x16>(args.k0[p] + i) + (e1 / sum) * load<f32x16>(args.k1[p] + i);
        store_bf16(args.out.row(p) + i, u);
      }
    }
  });
}

void compress_rows(Context& context, const CompressRowsArgs& args) {
  const int64_t d = args.latent.cols, key_dim = args.index_key.cols;
  context.pool->parallel_for(args.latent.rows, 8, [&](int64_t begin, int64_t end, int thread) {
    bf16* row = reinterpret_cast<bf16*>(context.scratch_of(thread));
    float* cos = reinterpret_cast<float*>(row + (d > key_dim ? d : key_dim));
    float* sin = cos + args.half;
    uint8_t codes[32];
    for (int64_t r = begin; r < end; ++r) {
      rope_row(args.positions[r], args.frequencies, args.half, cos, sin);

      std::memcpy(row, args.latent.row(r), static_cast<size_t>(d) * sizeof(bf16));
      rope_head(row, d, cos, sin, args.half, 1.0f);
      uint8_t* out = reinterpret_cast<uint8_t*>(args.kv_out[r]);
      for (int64_t b = 0; b < d; b += 16) {
        out[d / 2 + b / 16] = quantize_e2m1_block16(row + b, codes);
        pack_nibbles(codes, out + b / 2, 16);
      }

      rms_norm_row(args.index_key.row(r), args.key_norm_weight, args.eps, row, key_dim);
      rope_head(row, key_dim, cos, sin, args.half, 1.0f);
      out = reinterpret_cast<uint8_t*>(args.key_out[r]);
      for (int64_t b = 0; b < key_dim; b += 32) {
        out[key_dim / 2 + b / 32] = quantize_e2m1_block32(row + b, codes);
        pack_nibbles(codes, out + b / 2, 32);
      }
    }
  });
}

void ring_store(Context&, const RingStoreArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    const RunView& view = args.runs[run];
    for (int64_t r = view.rows > args.ring_rows ? view.rows - args.ring_rows : 0; r < view.rows; ++r) {
      std::memcpy(args.rings[run] + (view.start + r) % args.ring_rows * args.row_bytes,
                  args.step_rows + (view.first_row + r) * args.row_bytes, static_cast<size_t>(args.row_bytes));
    }
  }
}

}  // namespace deepinfer::DI_ISA
