#include "backend/cpu/gemm.h"
#include "backend/cpu/isa_kernels.h"

namespace deepinfer::DI_ISA {
namespace {

// Row pointers of a view, shifted by `column`.
template <typename T>
T** row_pointers(Arena& arena, Rows<T> rows, int64_t count, int64_t column) {
  T** pointers = arena.take<T*>(count);
  for (int64_t t = 0; t < count; ++t) pointers[t] = rows.row(t) + column;
  return pointers;
}

}  // namespace

void linear(Context& context, const LinearArgs& args) {
  const int64_t mark = context.arena->mark();
  GemmJob job;
  job.w = args.w;
  job.rows = args.w.n;
  job.count = args.x.rows;
  job.x_rows = row_pointers(*context.arena, args.x, args.x.rows, 0);
  job.out_f32 = args.out_f32.data != nullptr;
  job.out_rows = job.out_f32 ? reinterpret_cast<void**>(row_pointers(*context.arena, args.out_f32, args.x.rows, 0))
                             : reinterpret_cast<void**>(row_pointers(*context.arena, args.out, args.x.rows, 0));
  run_gemm_jobs(context, &job, 1);
  context.arena->release(mark);
}

void grouped_linear(Context& context, const GroupedLinearArgs& args) {
  const int64_t mark = context.arena->mark();
  GemmJob* jobs = context.arena->take<GemmJob>(args.groups);
  const int64_t n = args.w.n / args.groups;
  for (int64_t g = 0; g < args.groups; ++g) {
    jobs[g] = GemmJob();
    jobs[g].w = args.w;
    jobs[g].first = g * n;
    jobs[g].rows = n;
    jobs[g].count = args.x.rows;
    jobs[g].x_rows = row_pointers(*context.arena, args.x, args.x.rows, g * args.w.k);
    jobs[g].out_rows = reinterpret_cast<void**>(row_pointers(*context.arena, args.out, args.x.rows, g * n));
  }
  run_gemm_jobs(context, jobs, args.groups);
  context.arena->release(mark);
}

}  // namespace deepinfer::DI_ISA
