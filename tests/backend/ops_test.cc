#include <gtest/gtest.h>

#include "op_case.h"

// Every operation on every table of kernels that this machine can run, over the cases of cases_*.cc.
namespace deepinfer::optest {
namespace {

struct CaseRun {
  Outputs outputs;
  std::string violation;  // bytes written where they must not be, or scratch not given back
};

CaseRun run_case(const OpCase& op, const Kernels& kernels, Machine& machine, int64_t begin, int64_t end) {
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

std::string compare_with_reference(const OpCase& op, const Output& got, const Output& want) {
  if (got.compare == Output::Compare::related) return {};
  if (got.compare == Output::Compare::exact) return first_difference(got, want, 0, got.rows);
  Closeness close;
  close.min_equal = got.min_equal;
  for (int64_t r = 0; r < got.rows; ++r) {
    for (int64_t c = 0; c < got.cols; ++c) {
      const double value = want.value(r, c);
      double bound = op.bound ? op.bound(got, r, c, value) : 0;
      if (got.kind == Kind::bf16) bound += bf16_ulp(value);
      close.add(fmt::format("{}[{}][{}]", got.name, r, c), got.value(r, c), value, bound);
    }
  }
  return close.verdict();
}

// The tables under test. Where the machine has none but the reference, the cases themselves are still exercised.
std::vector<const Kernels*> tables() {
  std::vector<const Kernels*> list = cpu_kernels();
  if (list.empty()) list.push_back(&reference_kernels());
  return list;
}

class OpTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { ASSERT_FALSE(cases_of(GetParam()).empty()); }
  KernelFloatMode mode_;
};

INSTANTIATE_TEST_SUITE_P(, OpTest, testing::ValuesIn(op_names()), [](const auto& info) { return info.param; });

TEST_P(OpTest, CloseToReference) {
  Machine machine(2);
  for (const OpCase& op : cases_of(GetParam())) {
    const CaseRun want = run_case(op, reference_kernels(), machine, 0, op.units);
    for (const Kernels* table : tables()) {
      SCOPED_TRACE(op.name + " on " + std::string(table->name));
      const CaseRun got = run_case(op, *table, machine, 0, op.units);
      for (size_t i = 0; i < got.outputs.size(); ++i) {
        EXPECT_EQ(compare_with_reference(op, got.outputs[i], want.outputs[i]), "");
      }
      if (op.compare) {
        EXPECT_EQ(op.compare(got.outputs, want.outputs), "");
      }
    }
  }
}

// What a case says of its outputs must hold for the reference too.
TEST_P(OpTest, Relations) {
  Machine machine(2);
  std::vector<const Kernels*> list = tables();
  list.push_back(&reference_kernels());
  for (const OpCase& op : cases_of(GetParam())) {
    if (!op.check) continue;
    for (const Kernels* table : list) {
      SCOPED_TRACE(op.name + " on " + std::string(table->name));
      const CaseRun got = run_case(op, *table, machine, 0, op.units);
      EXPECT_EQ(op.check(*table, machine.context(), got.outputs), "");
    }
  }
}

TEST_P(OpTest, TablesAndThreadsAgreeBitForBit) {
  Machine one(1), two(2), three(3);
  for (const OpCase& op : cases_of(GetParam())) {
    const CaseRun want = run_case(op, *tables().front(), one, 0, op.units);
    for (const Kernels* table : tables()) {
      for (Machine* machine : {&one, &two, &three}) {
        SCOPED_TRACE(fmt::format("{} on {}, {} threads", op.name, table->name, machine->context().pool->threads()));
        const CaseRun got = run_case(op, *table, *machine, 0, op.units);
        EXPECT_EQ(difference(want.outputs, got.outputs, 0, op.units), "");
        EXPECT_EQ(got.violation, "");
      }
    }
  }
}

// The batch equals its parts: every unit alone (the first eight, the last), and cuts of growing size; nothing else is written.
TEST_P(OpTest, UnitsAreIndependent) {
  Machine machine(2);
  for (const OpCase& op : cases_of(GetParam())) {
    std::vector<std::pair<int64_t, int64_t>> ranges = {{0, 0}};
    for (int64_t u = 0; u < std::min<int64_t>(op.units, 8); ++u) ranges.emplace_back(u, u + 1);
    if (op.units > 8) ranges.emplace_back(op.units - 1, op.units);
    for (int64_t begin = 0, size = 2; begin < op.units; begin += size, size = size * 2 - 1) {
      ranges.emplace_back(begin, std::min(op.units, begin + size));
    }
    for (const Kernels* table : tables()) {
      const CaseRun whole = run_case(op, *table, machine, 0, op.units);
      for (const auto& [begin, end] : ranges) {
        SCOPED_TRACE(fmt::format("{} on {}, units {} to {}", op.name, table->name, begin, end));
        const CaseRun part = run_case(op, *table, machine, begin, end);
        EXPECT_EQ(difference(whole.outputs, part.outputs, begin, end), "");
        EXPECT_EQ(part.violation, "");
      }
    }
  }
}

// The reference itself must respect bounds, and its list of names the table.
TEST(Tables, NamesAreKnown) {
  EXPECT_EQ(reference_kernels().name, "reference");
  for (const Kernels* table : cpu_kernels()) {
    const Result<const Kernels*> found = cpu_kernels_named(table->name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found.value(), table);
  }
  const Result<const Kernels*> unknown = cpu_kernels_named("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), Code::invalid_argument);
  EXPECT_NE(std::string(unknown.status().message()).find("portable"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::optest
