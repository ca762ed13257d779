// Where golden data lies: the small copies in the tree, and the full sets beside the clone, which a user may not have.
#pragma once

#include <filesystem>
#include <string>

#include "checkpoint/config.h"

namespace deepinfer {

inline std::string golden(const std::string& name) { return std::string(DI_SOURCE_DIR "/tests/golden/") + name; }
inline std::string shared(const std::string& name) { return std::string(DI_SOURCE_DIR "/../shared/") + name; }
// The configuration of a golden model: "nano", "odd", "released".
inline ModelConfig sample(const std::string& name) { return read_config(golden(name + "/config.json")).value(); }
inline bool has_shared() { return std::filesystem::exists(shared("golden/SYNTH.md")); }

}  // namespace deepinfer

// Ends the test with a printed reason where the full golden data is not there.
#define DI_NEEDS_SHARED() \
  if (!has_shared()) GTEST_SKIP() << "the full golden data (../shared) is not here"
