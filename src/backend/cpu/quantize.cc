#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {

void act_quant(Context& context, const ActQuantArgs& args) {
  context.pool->parallel_for(args.x.rows, 16384 / (args.x.cols + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) act_quant_row(args.x.row(t), args.out.row(t), args.x.cols);
  });
}

}  // namespace deepinfer::DI_ISA
