#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "paths.h"

namespace deepinfer {
namespace {

TEST(Config, ReleasedFileIsWrittenBackByteForByte) {
  const std::string path = golden("released/config.json");
  const auto config = read_config(path);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config_to_json(*config), read_file(path).value());
}

TEST(Config, OpensTheShippedCheckpoints) {
  DI_NEEDS_SHARED();
  for (const char* dir : {"golden/nano/checkpoint", "golden/odd/checkpoint", "models/deepseek-v4.1-tiny"}) {
    const auto checkpoint = Checkpoint::open(shared(dir));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_TRUE(checkpoint->scales_checked());
  }
}

}  // namespace
}  // namespace deepinfer
