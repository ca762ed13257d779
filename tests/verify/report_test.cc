#include "verify/report.h"

#include <gtest/gtest.h>

#include <cmath>

namespace deepinfer {
namespace {

struct Printed {
  std::string out;
  ReporterOptions options(bool json, std::string only = {}) {
    ReporterOptions o;
    o.json = json;
    o.only = std::move(only);
    o.write = [this](std::string_view text) { out += text; };
    return o;
  }
};

TEST(ReportRows, JsonRowsAndLastLine) {
  Printed run;
  Reporter reporter(run.options(true));
  ASSERT_TRUE(reporter.wants("prefill_17"));
  reporter.row({"prefill_17", "3", "attn_out \"q\"", 0.1, 0.015, false});
  reporter.row({"ascii/1", "ids", "mismatches", 0, 0, true});
  reporter.skip("v41", "no tokenizer given");
  EXPECT_EQ(reporter.finish(), 1);
  EXPECT_EQ(run.out,
            "{\"case\":\"prefill_17\",\"level\":3,\"quantity\":\"attn_out \\\"q\\\"\",\"value\":0.1,\"limit\":0.015,"
            "\"ok\":false}\n"
            "{\"case\":\"ascii/1\",\"level\":\"ids\",\"quantity\":\"mismatches\",\"value\":0,\"limit\":0,\"ok\":true}\n"
            "{\"skip\":\"v41\",\"reason\":\"no tokenizer given\"}\n"
            "{\"cases\":2,\"checks\":2,\"failed\":1,\"skipped\":1}\n");
}

TEST(ReportRows, ANumberThatIsNotFiniteFails) {
  Printed run;
  Reporter reporter(run.options(true));
  reporter.row({"x", "8", "rms", std::nan(""), 1, true});
  EXPECT_EQ(reporter.failed(), 1u);
  EXPECT_NE(run.out.find("\"value\":null"), std::string::npos);
}

TEST(ReportRows, StopsAtTheFirstFailureUnlessAskedToKeepGoing) {
  Printed run;
  for (const bool keep_going : {false, true}) {
    ReporterOptions options = run.options(false);
    options.keep_going = keep_going;
    Reporter reporter(options);
    reporter.row({"x", "8", "rms", 0.5, 1, true});
    EXPECT_FALSE(reporter.stopped());
    reporter.row({"x", "8", "rms", 2, 1, false});
    EXPECT_EQ(reporter.stopped(), !keep_going);
  }
  EXPECT_NE(run.out.find("FAILED"), std::string::npos);
}

TEST(ReportRows, OnlyIsAGlobAndMatchingNothingIsBadUsage) {
  Printed run;
  Reporter reporter(run.options(true, "prefill_*"));
  EXPECT_TRUE(reporter.wants("prefill_17"));
  EXPECT_FALSE(reporter.wants("decode_p1"));
  reporter.row({"prefill_17", "8", "rms", 0, 1, true});
  EXPECT_EQ(reporter.finish(), 0);

  Reporter none(run.options(true, "nothing"));
  EXPECT_FALSE(none.wants("prefill_17"));
  EXPECT_EQ(none.finish(), 2);

  Reporter all(run.options(true, "*"));
  EXPECT_TRUE(all.wants("ascii/1"));
}

TEST(ReportRows, NothingToCheckIsNotAPass) {
  Printed run;
  Reporter reporter(run.options(true));
  EXPECT_EQ(reporter.finish(), 2);
}

}  // namespace
}  // namespace deepinfer
