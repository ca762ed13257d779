// Every planted fault (base/planted.h) makes verify fail, at the level that is there to find it; without one, the same cases pass.
#include "base/planted.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "verify/verify_model.h"

namespace deepinfer {
namespace {

struct Planted {
  const char* name;
  Fault fault;
  const char* golden;
  const char* only;  // the cases to run
  const char* level;
};

void PrintTo(const Planted& p, std::ostream* out) { *out << p.name; }

// Levels with a failed check.
std::set<std::string> failed_levels(const std::string& dir, const char* only, std::string& printed) {
  ReporterOptions options;
  options.json = true;
  options.keep_going = true;
  options.only = only;
  std::set<std::string> levels;
  options.write = [&](std::string_view line) {
    if (line.find("\"ok\":false") == line.npos) return;
    printed += line;
    const size_t from = line.find("\"level\":") + 8;
    std::string level(line.substr(from, line.find(',', from) - from));
    std::erase(level, '"');
    levels.insert(level);
  };
  Reporter reporter(options);
  const Status status = verify_model(dir, {"portable", 2}, reporter);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(reporter.checks(), 0u);
  return levels;
}

std::string small_golden(const char* name) { return std::string(DI_SOURCE_DIR "/tests/golden/") + name; }

class PlantedFault : public testing::TestWithParam<Planted> {
 protected:
  void TearDown() override { planted_fault = Fault::none; }
};

TEST_P(PlantedFault, IsFound) {
  const Planted& p = GetParam();
  std::string printed;
  planted_fault = p.fault;
  EXPECT_TRUE(failed_levels(small_golden(p.golden), p.only, printed).contains(p.level)) << printed;
}

// Cases by what reaches the fault in the least time; each of them passes without it (NothingPlanted).
constexpr Planted kFaults[] = {
    {"fp8_scale_index", Fault::fp8_scale_index, "nano", "prefill_17", "3"},
    {"fp4_scale_index", Fault::fp4_scale_index, "nano", "prefill_17", "3"},
    {"norm_eps", Fault::norm_eps, "nano", "prefill_33", "5"},
    {"rope_halves", Fault::rope_halves, "nano", "prefill_17", "3"},
    {"no_inverse_rope", Fault::no_inverse_rope, "nano", "prefill_17", "3"},
    {"no_yarn", Fault::no_yarn, "nano", "prefill_17", "3"},
    {"compressed_position", Fault::compressed_position, "nano", "prefill_17", "5"},
    {"no_sink", Fault::no_sink, "nano", "prefill_17", "3"},
    {"window_short", Fault::window_short, "nano", "prefill_17", "3"},
    {"probabilities_unrounded", Fault::probabilities_unrounded, "nano", "prefill_17", "3"},
    {"pooling_gate", Fault::pooling_gate, "nano", "prefill_17", "5"},
    {"index_key_source", Fault::index_key_source, "nano", "prefill_33", "4"},
    {"rotated_latent", Fault::rotated_latent, "nano", "prefill_17", "5"},
    {"candidates_ignored", Fault::candidates_ignored, "nano", "prefill_33", "4"},
    {"newest_block", Fault::newest_block, "nano", "prefill_33", "4"},
    {"pre_mix", Fault::pre_mix, "nano", "prefill_17", "6"},
    {"comb_transposed", Fault::comb_transposed, "nano", "prefill_17", "6"},
    {"sinkhorn_rounds", Fault::sinkhorn_rounds, "odd", "prefill_17", "6"},
    {"weight_after_w2", Fault::weight_after_w2, "nano", "prefill_17", "3"},
    {"no_clamp", Fault::no_clamp, "odd", "prefill_17", "3"},
    {"biased_weights", Fault::biased_weights, "nano", "prefill_17", "3"},
    {"engram_lookback", Fault::engram_lookback, "nano", "prefill_17", "7"},
    {"engram_root", Fault::engram_root, "nano", "prefill_17", "7"},
    {"draft_rows", Fault::draft_rows, "odd", "dspark_*", "10a"},
    {"confidence_input", Fault::confidence_input, "odd", "dspark_*", "10a"},
    {"replay_window", Fault::replay_window, "nano", "replay_33", "11a"},
};

INSTANTIATE_TEST_SUITE_P(Each, PlantedFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(PlantedNothing, TheSameCasesPass) {
  std::set<std::pair<std::string, std::string>> seen;
  for (const Planted& p : kFaults) {
    if (!seen.insert({p.golden, p.only}).second) continue;
    std::string printed;
    EXPECT_TRUE(failed_levels(small_golden(p.golden), p.only, printed).empty()) << p.golden << printed;
  }
}

// Lists of nano and odd fit one chunk of columns; only the wide model shows where its empty columns belong.
TEST(PlantedWideFull, DroppedColumnsAreFound) {
  const std::string dir = DI_SOURCE_DIR "/../shared/golden/wide";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << dir << " is not there";
  std::string printed;
  EXPECT_TRUE(failed_levels(dir, "prefill_300", printed).empty()) << printed;
  planted_fault = Fault::empty_columns_dropped;
  EXPECT_TRUE(failed_levels(dir, "prefill_300", printed).contains("3")) << printed;
  planted_fault = Fault::none;
}

}  // namespace
}  // namespace deepinfer
