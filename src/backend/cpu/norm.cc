#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {

void rms_norm(Context& context, const RmsNormArgs& args) {
  const int64_t d = args.x.cols;
  context.pool->parallel_for(args.x.rows, 16384 / (d + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      rms_norm_row(args.x.row(t), args.weight, args.eps, args.y.row(t), d);
      if (args.yq.data != nullptr) act_quant_row(args.y.row(t), args.yq.row(t), d);
    }
  });
}

}  // namespace deepinfer::DI_ISA
