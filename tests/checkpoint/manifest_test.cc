#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "checkpoint/state_bytes.h"
#include "paths.h"

namespace deepinfer {
namespace {

std::string as_tsv(const std::vector<ManifestEntry>& entries) {
  std::string text;
  for (const ManifestEntry& entry : entries) {
    text += fmt::format("{}\t{}\t{}\t{}\n", entry.name, dtype_name(entry.dtype), fmt::join(entry.shape, "x"),
                        entry.bytes());
  }
  return text;
}

TEST(Manifest, ReleasedListHasItsCountBytesAndDigest) {
  const std::vector<ManifestEntry> entries = manifest(sample("released"));
  int64_t bytes = 0;
  for (const ManifestEntry& entry : entries) bytes += entry.bytes();
  EXPECT_EQ(fmt::format("{} {} {:016x}\n", entries.size(), bytes, fnv1a64(as_tsv(entries))),
            read_file(golden("released/tensors_digest.txt")).value());
}

TEST(Manifest, EqualToTheReleasedListLineByLine) {
  DI_NEEDS_SHARED();
  std::FILE* pipe = ::popen(("xz -dc '" + shared("spec/released/tensors.tsv.xz") + "' 2>/dev/null").c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string expected;
  char buffer[65536];
  for (size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) expected.append(buffer, got);
  if (::pclose(pipe) != 0) GTEST_SKIP() << "the xz program is not here";
  EXPECT_TRUE(as_tsv(manifest(sample("released"))) == expected);
}

TEST(Manifest, PartsOfTheRelease) {
  std::map<Part, int> count;
  std::set<std::string> names;
  for (const ManifestEntry& entry : manifest(sample("released"))) {
    ++count[entry.part];
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(entry.part == Part::vision, entry.storage == Storage::none) << entry.name;
  }
  EXPECT_EQ(count[Part::vision], 266);
  EXPECT_EQ(count[Part::routed_experts], (40 * 384 + 3 * 128) * 6);
  EXPECT_EQ(count[Part::engram_table], 4);
  EXPECT_EQ(count[Part::draft_head], 7);
}

// Every scale follows its weight, with the shape that its storage says.
TEST(Manifest, ScalesFollowTheirWeights) {
  for (const char* name : {"nano", "odd", "wide"}) {
    const std::vector<ManifestEntry> entries = manifest(sample(name));
    for (size_t i = 0; i < entries.size(); ++i) {
      const ManifestEntry& entry = entries[i];
      const bool has_scale =
          entry.storage == Storage::f8_tile || entry.storage == Storage::f8_row || entry.storage == Storage::f4_row;
      const bool next_is_scale = i + 1 < entries.size() && entries[i + 1].storage == Storage::scale;
      EXPECT_EQ(has_scale, next_is_scale) << entry.name;
      if (!has_scale) continue;
      const int64_t columns = entry.shape[1] * (entry.storage == Storage::f4_row ? 2 : 1);
      const int64_t rows = entry.storage == Storage::f8_tile ? (entry.shape[0] + 31) / 32 : entry.shape[0];
      EXPECT_EQ(entries[i + 1].shape, (std::vector<int64_t>{rows, columns / 32})) << entry.name;
      EXPECT_EQ(entries[i + 1].name, entry.name.substr(0, entry.name.size() - 6) + "scale");
    }
  }
}

// Some rows of the table in SYNTH.md section 5, for nano: hidden 128, head dim 64.
TEST(Manifest, DistributionsOfSyntheticValues) {
  std::map<std::string, ManifestEntry> by_name;
  for (const ManifestEntry& entry : manifest(sample("nano"))) by_name[entry.name] = entry;
  const auto expect = [&](const char* name, double mean, double std) {
    ASSERT_TRUE(by_name.contains(name)) << name;
    EXPECT_EQ(by_name[name].mean, mean) << name;
    EXPECT_EQ(by_name[name].std, std) << name;
  };
  expect("embed.weight", 0, 0.12);
  expect("head.weight", 0, 3.0 / std::sqrt(128.0));
  expect("layers.0.attn_norm.weight", 0.025, 0.1 * 0.025);
  expect("layers.2.attn.compressor.norm.weight", 0.1, 0.1 * 0.1);
  expect("layers.2.attn.compressor.wgate.weight", 0, 40.0 / std::sqrt(128.0));
  expect("layers.2.attn.indexer.wk.weight", 0, 1.0 / std::sqrt(64.0));
  expect("layers.0.ffn.experts.0.w2.weight", 0, 0.05 / std::sqrt(64.0));
  expect("layers.1.engram.q_weight", 1.0, 0.3);
  expect("mtp.2.norm.weight", 1.0, 0.1);
  expect("mtp.2.markov_head.embed.weight", 0, 1.0);
}

// Published and derived figures of the release.
TEST(StateBytes, Released) {
  const ModelConfig config = sample("released");
  const StateBytes bytes = state_bytes(config);
  EXPECT_EQ(bytes.kv_row, 288);
  EXPECT_EQ(bytes.index_row, 68);
  EXPECT_EQ(bytes.per_token, 890.0);
  EXPECT_EQ(bytes.window_row, 528);
  EXPECT_EQ(bytes.ring_rows, 140);
  EXPECT_EQ(bytes.layer_rings, int64_t{40} * 140 * 528);
  EXPECT_EQ(bytes.draft_rings, int64_t{3} * 140 * 528);
  EXPECT_EQ(bytes.carries, int64_t{3} * 7 * 2 * 512 * 4);
  EXPECT_EQ(bytes.ngram_tail, 15 * 4);
  EXPECT_EQ(compressed_bytes(config, 0), 0);
  EXPECT_EQ(compressed_bytes(config, 1), 356);  // an open ratio-2 group makes no row
  EXPECT_EQ(compressed_bytes(config, 1000), 890 * 1000);
}

TEST(StateBytes, OddHasHalfRows) {
  const StateBytes bytes = state_bytes(sample("odd"));
  EXPECT_EQ(bytes.kv_row, 54);
  EXPECT_EQ(bytes.index_row, 51);
  EXPECT_EQ(bytes.per_token, 105 + 52.5);
}

}  // namespace
}  // namespace deepinfer
