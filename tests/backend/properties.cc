#include "properties.h"

namespace deepinfer::optest {
namespace {

// Machines are large (poisoned scratch): made once.
Machine& machine_with(int threads) {
  static Machine one(1), two(2), three(3);
  return threads == 1 ? one : threads == 2 ? two : three;
}

struct CaseRun {
  Outputs outputs;
  std::string violation;  // bytes written where they must not be, or scratch not given back
};

CaseRun run_case(const OpCase& op, const Kernels& kernels, int threads, int64_t begin, int64_t end) {
  Machine& machine = machine_with(threads);
  CaseRun run{op.make(), {}};
  const int64_t mark = machine.arena_mark();
  op.run(kernels, machine.context(), begin, end, run.outputs);
  if (machine.arena_mark() != mark) run.violation = "scratch was not given back";
  for (const Output& output : run.outputs) {
    std::string touched = output.touched_outside(output.row_of_unit(begin), output.row_of_unit(end));
    if (!touched.empty()) run.violation = touched;
  }
  return run;
}

std::string difference(const Outputs& a, const Outputs& b, int64_t begin, int64_t end) {
  for (size_t i = 0; i < a.size(); ++i) {
    std::string text = first_difference(a[i], b[i], a[i].row_of_unit(begin), a[i].row_of_unit(end));
    if (!text.empty()) return text;
  }
  return {};
}

std::string compare_output(const OpCase& op, const Output& got, const Output& want) {
  if (got.compare == Output::Compare::related) return {};
  if (got.compare == Output::Compare::exact) return first_difference(got, want, 0, got.rows);
  Closeness close;
  close.min_equal = got.min_equal;
  for (int64_t r = 0; r < got.rows; ++r) {
    for (int64_t c = 0; c < got.cols; ++c) {
      const double value = want.value(r, c);
      double bound = op.bound ? op.bound(got, r, c, value) : 0;
      if (got.kind == Kind::bf16) bound += bf16_ulp(value);
      close.add(got.name, r, c, got.value(r, c), value, bound);
    }
  }
  return close.verdict();
}

}  // namespace

std::string close_to_reference(const OpCase& op, const Kernels& table) {
  const CaseRun want = run_case(op, reference_kernels(), 1, 0, op.units), got = run_case(op, table, 1, 0, op.units);
  for (size_t i = 0; i < got.outputs.size(); ++i) {
    std::string text = compare_output(op, got.outputs[i], want.outputs[i]);
    if (!text.empty()) return text;
  }
  return op.compare ? op.compare(got.outputs, want.outputs) : std::string();
}

std::string relations(const OpCase& op, const Kernels& table) {
  if (!op.check) return {};
  const CaseRun got = run_case(op, table, 1, 0, op.units);
  return op.check(table, machine_with(1).context(), got.outputs);
}

std::string agrees_with(const OpCase& op, const Kernels& table, const Kernels& other) {
  const CaseRun want = run_case(op, other, 1, 0, op.units);
  for (const int threads : {1, 2, 3}) {
    const CaseRun got = run_case(op, table, threads, 0, op.units);
    std::string text = difference(want.outputs, got.outputs, 0, op.units);
    if (text.empty()) text = got.violation;
    if (!text.empty()) return fmt::format("{} threads: {}", threads, text);
  }
  return {};
}

std::string units_are_independent(const OpCase& op, const Kernels& table) {
  std::vector<std::pair<int64_t, int64_t>> ranges = {{0, 0}};
  for (int64_t u = 0; u < std::min<int64_t>(op.units, 8); ++u) ranges.emplace_back(u, u + 1);
  if (op.units > 8) ranges.emplace_back(op.units - 1, op.units);
  for (int64_t begin = 0, size = 2; begin < op.units; begin += size, size = size * 2 - 1) {
    ranges.emplace_back(begin, std::min(op.units, begin + size));
  }
  const CaseRun whole = run_case(op, table, 1, 0, op.units);
  for (const auto& [begin, end] : ranges) {
    const CaseRun part = run_case(op, table, 1, begin, end);
    std::string text = difference(whole.outputs, part.outputs, begin, end);
    if (text.empty()) text = part.violation;
    if (!text.empty()) return fmt::format("units {} to {}: {}", begin, end, text);
  }
  return {};
}

}  // namespace deepinfer::optest
