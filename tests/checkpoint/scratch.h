// A directory for one test, and synthetic checkpoints in it.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "checkpoint/synth.h"
#include "paths.h"

namespace deepinfer {

// Made empty; removed at the end.
class ScratchDir {
 public:
  explicit ScratchDir(const std::string& name)
      : path_(testing::TempDir() + "/di_" + name + "_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~ScratchDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;

  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

inline void put_bytes(const std::string& path, const std::string& content) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  ASSERT_TRUE(out.good()) << path;
}

// Writes golden/NAME's configuration with seed 1, as the golden data was made.
inline void synth_sample(const std::string& name, const std::string& out_dir, int64_t shards, int threads = 1) {
  SynthOptions options;
  options.config_name = name;
  options.out_dir = out_dir;
  options.shards = shards;
  options.threads = threads;
  const auto summary = synthesize(read_config(golden(name + "/config.json")).value(), options);
  ASSERT_TRUE(summary.ok()) << summary.status().message();
}

}  // namespace deepinfer
