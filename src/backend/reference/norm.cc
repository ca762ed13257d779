#include "backend/ops/norm.h"

#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {

void rms_norm_row(const bf16* x, const bf16* weight, float eps, int64_t d, bf16* y) {
  double sum = 0;
  for (int64_t i = 0; i < d; ++i) sum += as_double(x[i]) * as_double(x[i]);
  const double r = 1.0 / std::sqrt(sum / static_cast<double>(d) + static_cast<double>(eps));
  for (int64_t i = 0; i < d; ++i) y[i] = round_to_bf16(as_double(weight[i]) * (as_double(x[i]) * r));
}

void rms_norm(Context& context, const RmsNormArgs& args) {
  for (int64_t t = 0; t < args.x.rows; ++t)
    rms_norm_row(args.x.row(t), args.weight, args.eps, args.x.cols, args.y.row(t));
  if (args.yq.data != nullptr) act_quant(context, {args.y, args.yq});
}

}  // namespace deepinfer::reference
