#include <gtest/gtest.h>

#include "properties.h"

// Every operation on every table of kernels that this machine can run, over the cases of cases_*.cc.
namespace deepinfer::optest {
namespace {

class OpTest : public testing::TestWithParam<std::string> {
 protected:
  OpTest() : cases_(cases_of(GetParam())) {}
  void SetUp() override { ASSERT_FALSE(cases_.empty()); }

  // Asks `property` of all cases on the given tables.
  template <typename Property>
  void expect(const std::vector<const Kernels*>& tables, Property property) {
    for (const OpCase& op : cases_) {
      for (const Kernels* table : tables) EXPECT_EQ(property(op, *table), "") << op.name << " on " << table->name;
    }
  }

  std::vector<OpCase> cases_;
  KernelFloatMode mode_;
};

INSTANTIATE_TEST_SUITE_P(, OpTest, testing::ValuesIn(op_names()), [](const auto& info) { return info.param; });

TEST_P(OpTest, CloseToReference) { expect(cpu_kernels(), close_to_reference); }

// What a case says of its outputs must hold for the reference too.
TEST_P(OpTest, Relations) {
  std::vector<const Kernels*> tables = cpu_kernels();
  tables.push_back(&reference_kernels());
  expect(tables, relations);
}

TEST_P(OpTest, TablesAndThreadsAgreeBitForBit) {
  const Kernels& first = *cpu_kernels().front();
  expect(cpu_kernels(), [&](const OpCase& op, const Kernels& table) { return agrees_with(op, table, first); });
}

TEST_P(OpTest, UnitsAreIndependent) { expect(cpu_kernels(), units_are_independent); }

TEST(Tables, NamesAreKnown) {
  EXPECT_EQ(reference_kernels().name, "reference");
  EXPECT_EQ(cpu_kernels().back()->name, "portable");
  for (const Kernels* table : cpu_kernels()) {
    const Result<const Kernels*> found = cpu_kernels_named(table->name);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found.value(), table);
  }
  const Result<const Kernels*> unknown = cpu_kernels_named("sse9");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().code(), Code::invalid_argument);
  EXPECT_NE(unknown.status().message().find("portable"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::optest
