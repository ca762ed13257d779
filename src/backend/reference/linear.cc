#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {

double e8m0_value(uint8_t byte) {
  if (byte == kE8M0Nan) return std::nan("");
  return byte == 0 ? 0.0 : std::ldexp(1.0, byte - 127);  // 2^-127 is a denormal float: zero by contract
}

double weight_value(const Matrix& w, int64_t n, int64_t k) {
  switch (w.kind) {
    case WeightKind::bf16:
      return as_double(static_cast<const bf16*>(w.data)[n * w.k + k]);
    case WeightKind::fp8_tile: {
      const uint8_t code = static_cast<const uint8_t*>(w.data)[n * w.k + k];
      const uint8_t scale = w.scale[(n / 32) * (w.k / 32) + k / 32];
      return static_cast<double>(e4m3_to_float(code)) * e8m0_value(scale);
    }
    case WeightKind::fp4_row: {
      const uint8_t pair = static_cast<const uint8_t*>(w.data)[(n * w.k + k) / 2];
      const uint8_t code = k % 2 == 0 ? pair & 15u : pair >> 4;
      const uint8_t scale = w.scale[n * (w.k / 32) + k / 32];
      return static_cast<double>(e2m1_to_float(code)) * e8m0_value(scale);
    }
  }
  return 0;
}

void linear(Context&, const LinearArgs& args) {
  for (int64_t n = 0; n < args.w.n; ++n) {
    for (int64_t t = 0; t < args.x.rows; ++t) {
      double sum = 0;
      for (int64_t k = 0; k < args.w.k; ++k) sum += as_double(args.x.row(t)[k]) * weight_value(args.w, n, k);
      if (args.out_f32.data != nullptr) {
        args.out_f32.row(t)[n] = static_cast<float>(sum);
      } else {
        args.out.row(t)[n] = round_to_bf16(sum);
      }
    }
  }
}

void grouped_linear(Context&, const GroupedLinearArgs& args) {
  const int64_t outputs = args.w.n / args.groups;
  for (int64_t n = 0; n < args.w.n; ++n) {
    const int64_t first_column = (n / outputs) * args.w.k;
    for (int64_t t = 0; t < args.x.rows; ++t) {
      double sum = 0;
      for (int64_t k = 0; k < args.w.k; ++k)
        sum += as_double(args.x.row(t)[first_column + k]) * weight_value(args.w, n, k);
      args.out.row(t)[n] = round_to_bf16(sum);
    }
  }
}

}  // namespace deepinfer::reference
