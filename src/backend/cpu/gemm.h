// The matrix product under linear, grouped_linear and the experts: many products as one parallel loop.
// Order of sums: ops/linear.h. Private to backend/cpu; compiled per instruction set.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer::DI_ISA {

// out_rows[i][j] = x_rows[i] . w row (first + j), for i < count, j < rows.
struct GemmJob {
  Matrix w;
  int64_t first = 0;  // first row of w
  int64_t rows = 0;
  const bf16* const* x_rows = nullptr;
  void* const* out_rows = nullptr;
  int64_t count = 0;
  bool out_f32 = false;
};

void run_gemm_jobs(Context& context, const GemmJob* jobs, int64_t count);

}  // namespace deepinfer::DI_ISA
