// The measures that decide what passes: by hand-made numbers, and ties as golden/README.md writes them.
#include "verify/compare.h"

#include <gtest/gtest.h>

#include <limits>

#include "backend/ops/quantize.h"
#include "verify/selection_check.h"

namespace deepinfer {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const double kNan = std::nan("");

TEST(CompareSpread, QuantilesAreInterpolated) {
  const Spread s = spread({0.4, 0.1, 0.2, 0.3});
  EXPECT_DOUBLE_EQ(s.median, 0.25);
  EXPECT_DOUBLE_EQ(s.p90, 0.37);
  EXPECT_DOUBLE_EQ(s.max, 0.4);
  EXPECT_TRUE(std::isnan(spread({0.1, kNan, 0.2}).median));
}

TEST(CompareSpread, RowErrorIsRelative) {
  const bf16 ours[2] = {to_bf16(3.0f), to_bf16(4.5f)}, golden[2] = {to_bf16(3.0f), to_bf16(4.0f)};
  EXPECT_DOUBLE_EQ(row_error(ours, golden, 2), 0.1);
  const bf16 broken[2] = {to_bf16(3.0f), to_bf16(std::nanf(""))};
  EXPECT_TRUE(std::isnan(row_error(broken, golden, 2)));
  EXPECT_TRUE(std::isnan(row_error(golden, broken, 2)));
}

TEST(CompareWorst, KeepsTheLargestAndTheFirstNan) {
  Worst worst;
  worst.take(1, "a");
  worst.take(3, "b");
  worst.take(2, "c");
  EXPECT_EQ(worst.at, "b");
  worst.take(kNan, "d");
  worst.take(9, "e");
  EXPECT_TRUE(std::isnan(worst.value));
}

TEST(CompareLogits, DivergenceAndMargins) {
  LogitErrors same;
  const float golden[3] = {std::log(0.5f), std::log(0.3f), std::log(0.2f)};
  same.add(golden, golden, 3);
  EXPECT_EQ(same.rms(), 0);
  EXPECT_NEAR(same.kl_max(), 0, 1e-12);
  // KL(golden || ours) of (.5, .3, .2) and (.3, .5, .2) = .5 ln(5/3) + .3 ln(3/5); the argmax moves at a margin of ln(5/3).
  const float ours[3] = {golden[1], golden[0], golden[2]};
  LogitErrors other;
  other.add(golden, golden, 3);
  other.add(ours, golden, 3);
  EXPECT_NEAR(other.kl_max(), 0.2 * std::log(5.0 / 3), 1e-7);
  EXPECT_NEAR(other.kl_mean(), 0.1 * std::log(5.0 / 3), 1e-7);
  EXPECT_NEAR(other.lost_margin(), std::log(5.0 / 3), 1e-6);
  EXPECT_DOUBLE_EQ(other.argmax_share(), 0.5);
  EXPECT_NEAR(other.rms(), std::log(5.0 / 3) * std::sqrt(2.0 / 6), 1e-7);
  const float broken[3] = {0, std::nanf(""), 0};
  other.add(broken, golden, 3);
  EXPECT_TRUE(std::isnan(other.rms()) && std::isnan(other.kl_max()));
}

TEST(CompareBf16, Steps) {
  EXPECT_EQ(bf16_steps(1.0f, to_bf16(1.0f)), 0);
  EXPECT_EQ(bf16_steps(0.0f, to_bf16(-0.0f)), 0);
  EXPECT_EQ(bf16_steps(1.0f, to_bf16(1.0078125f)), 1);
  EXPECT_EQ(bf16_steps(-kInf, to_bf16(-kInf)), 0);
  EXPECT_GT(bf16_steps(-kInf, to_bf16(-3e38f)), 100);
  EXPECT_TRUE(std::isnan(bf16_steps(std::nanf(""), to_bf16(1))));
}

// Rows on the grid of a window row come back, whatever code the largest element has; neighbours count as one code apart.
TEST(CompareStoredRows, WindowRowsComeBackAndNeighboursAreOneCodeApart) {
  bf16 values[64];
  for (int i = 0; i < 64; ++i) {
    const auto code = static_cast<uint8_t>(i < 32 ? 0x40 + i % 8 : 0xB8 + i % 4);
    values[i] = to_bf16(e4m3_to_float(code) * (i < 32 ? 0.25f : 4.0f));
  }
  std::byte row[window_row_bytes(64)];
  encode_window_row(values, 64, row);
  CodeErrors errors;
  errors.add_row(StoredRow::window, row, values, 64);
  EXPECT_EQ(errors.share.equal, 64);
  EXPECT_EQ(errors.beyond, 0);
  values[3] = to_bf16(to_float(values[3]) * 1.0625f);  // less than a step of 1/8
  values[40] = to_bf16(to_float(values[40]) * 1.5f);
  CodeErrors apart;
  apart.add_row(StoredRow::window, row, values, 64);
  EXPECT_EQ(apart.share.equal, 62);
  EXPECT_EQ(apart.beyond, 1);
}

TEST(CompareStoredRows, Fp4RowsDecodeWithTheirScales) {
  std::byte row[index_row_bytes(32)] = {};
  row[0] = std::byte{0x7C};  // element 0: -2 (code 12), element 1: 6 (code 7)
  row[16] = std::byte{128};  // 2^1
  float values[32], steps[32];
  decode_stored_row(StoredRow::index_key, row, 32, values, steps);
  EXPECT_EQ(values[0], -4);
  EXPECT_EQ(values[1], 12);
  EXPECT_EQ(steps[0], 2);
  EXPECT_EQ(steps[1], 4);
}

// One layer with ratio 1, eight visible rows.
class SelectionTies : public testing::Test {
 protected:
  SelectionTies() {
    config_.layers.resize(1);
    config_.layers[0].compress_ratio = 1;
    config_.index_topk = 2;
    config_.candidate_block_size = 2;
    config_.candidate_topk_blocks = 2;
    layers_.resize(1);
  }
  // Runs one query at position n - 1 with these scores of ours; the golden scores are the same unless set before.
  void run(std::vector<float> scores, std::vector<int32_t> ours, std::vector<int32_t> golden) {
    const auto n = static_cast<int64_t>(scores.size());
    layers_[0].topk = {golden, 1, static_cast<int64_t>(golden.size())};
    SelectionCheck check(config_, layers_, {true}, n - 1);
    const Rows<float> room = check.room(0, n - 1, 1);
    std::copy(scores.begin(), scores.end(), room.data);
    check.topk(0, n - 1, rows_of(ours.data(), 1, static_cast<int64_t>(ours.size())));
    wrong_ = check.topk_wrong.value;
    steps_ = check.score_steps.value;
    selected_ = ours;
  }
  ModelConfig config_;
  std::vector<GoldenLayer> layers_;
  double wrong_ = -1, steps_ = -1;
  std::vector<int32_t> selected_;
};

TEST_F(SelectionTies, EqualScoresAtTheBoundaryMayBeExchanged) {
  run({5, 3, 3, 1}, {0, 2}, {0, 1});
  EXPECT_EQ(wrong_, 0);
  EXPECT_EQ(selected_, (std::vector<int32_t>{0, 1}));  // forced
}

TEST_F(SelectionTies, NothingElseMay) {
  run({5, 3, 3, 1}, {1, 2}, {0, 1});
  EXPECT_EQ(wrong_, 1);
  run({5, 3, 3, 1}, {0, 3}, {0, 1});
  EXPECT_EQ(wrong_, 1);
  run({5, 3, 3, 1}, {0, -1}, {0, 1});
  EXPECT_EQ(wrong_, 1);
  run({5, 3, 2, 1}, {0, 2}, {0, 1});
  EXPECT_EQ(wrong_, 1);
}

TEST_F(SelectionTies, OwnScoresMayBeAStepBesideTheGoldenBoundary) {
  layers_[0].topk_last = {{3.0f}, 1, 1};
  run({5, 3, 3.015625f, 1}, {0, 2}, {0, 1});
  EXPECT_EQ(wrong_, 0);
  run({5, 3, 3.03125f, 1}, {0, 2}, {0, 1});
  EXPECT_EQ(wrong_, 1);
}

TEST_F(SelectionTies, GoldenScoresDecideWhereThereAreAny) {
  layers_[0].index_score = {{to_bf16(5), to_bf16(3), to_bf16(2), to_bf16(1)}, 1, 4};
  run({5, 3, 3, 1}, {0, 2}, {0, 1});
  EXPECT_EQ(wrong_, 1);
  EXPECT_EQ(steps_, 64);  // 2 and 3 are half a binade apart
}

TEST_F(SelectionTies, AListThatIsNotFullForcesItsRowsOnly) {
  run({4}, {0, -1}, {-1, 0});
  EXPECT_EQ(wrong_, 0);
  EXPECT_EQ(selected_, (std::vector<int32_t>{0, -1}));
}

TEST_F(SelectionTies, CandidateBlocks) {
  // Blocks of two rows: 9, 4, 4, newest (always kept). Two are kept: the newest and the first.
  const std::vector<float> scores = {9, 0, 4, 1, 4, 0, 1, 1};
  const auto wrong = [&](std::vector<float> own, std::vector<int32_t> ours, std::vector<uint8_t> mask) {
    layers_[0].candidates = {mask, 1, 8};
    SelectionCheck check(config_, layers_, {true}, 7);
    std::copy(own.begin(), own.end(), check.room(0, 7, 1).data);
    auto count = static_cast<int32_t>(ours.size());
    ours.resize(2);
    CandidateLists lists{ours.data(), &count, 2};
    check.candidates(0, 7, 1, lists);
    selected_ = {ours.begin(), ours.begin() + count};
    return check.candidates_wrong.value;
  };
  EXPECT_EQ(wrong(scores, {0, 3}, {1, 1, 0, 0, 0, 0, 1, 1}), 0);
  EXPECT_EQ(wrong(scores, {1, 3}, {1, 1, 0, 0, 0, 0, 1, 1}), 1);
  EXPECT_EQ(selected_, (std::vector<int32_t>{0, 3}));  // forced
  EXPECT_EQ(wrong(scores, {0, 1}, {1, 1, 0, 0, 0, 0, 1, 1}), 1);
  EXPECT_EQ(wrong({1, 0, 4, 1, 4, 0, 1, 1}, {1, 3}, {0, 0, 0, 0, 1, 1, 1, 1}), 0);  // a tie of blocks 1 and 2
  EXPECT_EQ(wrong(scores, {0, 3}, {1, 1, 1, 1, 0, 0, 1, 1}), 1);
}

}  // namespace
}  // namespace deepinfer
