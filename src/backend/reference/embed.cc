#include "backend/ops/embed.h"

#include "backend/reference/reference.h"

namespace deepinfer::reference {

void embed(Context&, const EmbedArgs& args) {
  const int64_t d = args.x.cols / kHcMult;
  for (int64_t t = 0; t < args.count; ++t) {
    for (int64_t copy = 0; copy < kHcMult; ++copy) {
      for (int64_t i = 0; i < d; ++i) args.x.row(t)[copy * d + i] = args.table[args.tokens[t] * d + i];
      args.pre[t * kHcMult + copy] = copy == 0 ? 1.0f : 0.0f;
    }
  }
}

}  // namespace deepinfer::reference
