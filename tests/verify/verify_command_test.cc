// deepinfer verify: exit codes.
#include "cli/verify_command.h"

#include <gtest/gtest.h>

namespace deepinfer {
namespace {

const std::string kGolden = DI_SOURCE_DIR "/tests/golden/";

int run(std::vector<std::string> directories, const std::string& only, const std::string& device = "cpu") {
  VerifyCliOptions options;
  options.directories = std::move(directories);
  options.only = only;
  Globals globals;
  globals.threads = 1;
  globals.device = device;
  return run_verify(options, globals);
}

TEST(VerifyCommand, ExitCodes) {
  EXPECT_EQ(run({kGolden + "nano", kGolden + "odd"}, "prefill_1"), 0);
  EXPECT_EQ(run({kGolden + "nano"}, "no_such_case"), 2);
  EXPECT_EQ(run({kGolden + "nothing"}, ""), 2);
  EXPECT_EQ(run({kGolden + "released"}, ""), 2);  // no golden.json
}

TEST(VerifyCommand, ADeviceThatThisBuildDoesNotHaveIsRefused) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(run({kGolden + "nano"}, "prefill_1", "cuda"), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("--device cuda"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer
