#include "base/file.h"

#include <gtest/gtest.h>

#include <filesystem>

namespace deepinfer {
namespace {

TEST(File, WritesReadsAndMaps) {
  const std::string path = testing::TempDir() + "/di_file_test";
  ASSERT_TRUE(write_file_atomic(path, "hello").ok());
  ASSERT_TRUE(write_file_atomic(path, "second").ok());
  EXPECT_EQ(read_file(path).value(), "second");
  const auto mapped = MappedFile::open(path);
  ASSERT_TRUE(mapped.ok());
  EXPECT_EQ(mapped->bytes().size(), 6u);
  std::filesystem::remove(path);
}

TEST(File, ErrorsNameThePath) {
  const auto missing = MappedFile::open("/no/such/file");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::not_found);
  EXPECT_NE(missing.status().message().find("/no/such/file"), std::string::npos);
  EXPECT_FALSE(MappedFile::open("/tmp").ok());
  EXPECT_FALSE(read_file("/proc/self/exe", 16).ok());
  EXPECT_FALSE(write_file_atomic("/no/such/dir/x", "y").ok());
}

TEST(File, EmptyFileMapsToNothing) {
  const std::string path = testing::TempDir() + "/di_file_empty";
  ASSERT_TRUE(write_file_atomic(path, "").ok());
  EXPECT_EQ(MappedFile::open(path).value().bytes().size(), 0u);
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace deepinfer
