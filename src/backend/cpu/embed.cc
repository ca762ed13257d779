#include <cstring>

#include "backend/cpu/isa_kernels.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {

void embed(Context& context, const EmbedArgs& args) {
  const int64_t d = args.x.cols / kHcMult;
  context.pool->parallel_for(args.count, 64, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t copy = 0; copy < kHcMult; ++copy) {
        std::memcpy(args.x.row(t) + copy * d, args.table + args.tokens[t] * d, static_cast<size_t>(d) * sizeof(bf16));
        args.pre[t * kHcMult + copy] = copy == 0 ? 1.0f : 0.0f;
      }
    }
  });
}

}  // namespace deepinfer::DI_ISA
