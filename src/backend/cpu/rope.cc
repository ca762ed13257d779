#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {

void rope_table(Context& context, const RopeTableArgs& args) {
  context.pool->parallel_for(args.count, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      const float position = static_cast<float>(args.positions[t]);
      for (int64_t j = 0; j < args.half; ++j) {
        sincos(position * args.frequencies[j], args.cos[t * args.half + j], args.sin[t * args.half + j]);
      }
    }
  });
}

void rope(Context& context, const RopeArgs& args) {
  const int64_t heads = args.x.cols / args.head_dim;
  const float sign = args.inverse ? -1.0f : 1.0f;
  context.pool->parallel_for(args.x.rows * heads, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = i / heads;
      bf16* x = args.x.row(t) + (i % heads) * args.head_dim;
      rope_head(x, args.head_dim, args.cos + t * args.half, args.sin + t * args.half, args.half, sign);
      if (!args.fp4_block32) continue;
      for (int64_t b = 0; b < args.head_dim; b += 32) {
        uint8_t codes[32];
        const float scale = e8m0_to_float(quantize_e2m1_block32(x + b, codes));
        for (int j = 0; j < 32; ++j) x[b + j] = to_bf16(e2m1_to_float(codes[j]) * scale);
      }
    }
  });
}

}  // namespace deepinfer::DI_ISA
