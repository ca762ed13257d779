#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {

void engram_hash(Context& context, const EngramHashArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    const RunView& view = args.runs[run];
    context.pool->parallel_for(view.rows, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t t = begin; t < end; ++t) {
        int64_t* ids = args.ids.row(view.first_row + t);
        uint64_t r = 0;
        bool blocked = false;
        for (int64_t back = 0; back < args.max_ngram; ++back) {
          const int64_t near = planted(Fault::engram_lookback) && back > 0 ? 1 : 0;
          const int32_t cls = args.classes[run][t - back + near];
          blocked = blocked || cls < 0;
          r ^= static_cast<uint64_t>(blocked ? args.pad_class : cls) * args.multipliers[back];
          if (back == 0) continue;
          for (int64_t h = 0; h < args.heads; ++h) {
            const int64_t column = (back - 1) * args.heads + h;
            ids[column] = static_cast<int64_t>(r % args.primes[column] + args.offsets[column]);
          }
        }
      }
    });
  }
}

void engram_gather(Context& context, const EngramGatherArgs& args) {
  const int64_t d = args.head_dim, columns = args.ids.cols;
  context.pool->parallel_for(args.ids.rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t c = 0; c < columns; ++c) {
        const int64_t id = args.ids.row(t)[c];
        const uint8_t* codes = args.codes + id * d;
        const uint8_t* scales = args.scales + id * (d / 32);
        bf16* out = args.out.row(t) + c * d;
        for (int64_t i = 0; i < d; i += 16) {
          const u32x16 code = widen_u8(codes + i);
          store_bf16(out + i, decode_e4m3(code) * splat(e8m0_to_float(scales[i / 32])));
        }
      }
    }
  });
}

void engram_write(Context& context, const EngramWriteArgs& args) {
  const int64_t d = args.d;
  const float inverse_sqrt_d = static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(d)));
  context.pool->parallel_for(args.x.rows * kHcMult, 8192 / (d + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = i / kHcMult, copy = i % kHcMult;
      bf16* x = args.x.row(t) + copy * d;
      const bf16* key = args.kv.row(t) + copy * d;
      const bf16* value = args.kv.row(t) + kHcMult * d;
      const bf16* qw = args.q_weight + copy * d;
      const bf16* kw = args.k_weight + copy * d;
      const float rstd =
          reciprocal_sqrt(mean_square(x, d) + args.eps) * reciprocal_sqrt(mean_square(key, d) + args.eps);
      f32x16 sum = {};
      for (int64_t j = 0; j < d; j += 16) {  // d is a multiple of 32
        sum = sum + load_bf16(x + j) * (load_bf16(qw + j) * load_bf16(kw + j)) * load_bf16(key + j);
      }
      const float dot = sum_by_halves(sum) * rstd * inverse_sqrt_d;
      const float magnitude = dot < 0.0f ? -dot : dot;
      const float clamped = magnitude > 1e-6f ? magnitude : 1e-6f;
      const float root = planted(Fault::engram_root) ? clamped : __builtin_sqrtf(clamped);
      const bool image = args.image != nullptr && args.image[t] != 0;
      const float gate = image ? 0.0f : sigmoid(__builtin_copysignf(root, dot));
      args.gate[i] = gate;
      for (int64_t j = 0; j < d; j += 16) store_bf16(x + j, load_bf16(x + j) + splat(gate) * load_bf16(value + j));
    }
  });
}

}  // namespace deepinfer::DI_ISA
