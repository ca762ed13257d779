// The saved form of a state (docs/state-format.md): round trips, and bytes that are not what was saved.
#include <gtest/gtest.h>
#include <xxhash.h>

#include "written_state.h"

namespace deepinfer {
namespace {

using state_test::layout_of;
using state_test::pool_of;
using state_test::write;

constexpr size_t kHeaderBytes = 112, kChecksumAt = 8, kCheckedFrom = 16, kLengthAt = 96, kWindowBeginAt = 104;

// As one who writes such a file on purpose would.
std::string with_checksum(std::string bytes) {
  const uint64_t sum = XXH3_64bits(bytes.data() + kCheckedFrom, bytes.size() - kCheckedFrom);
  std::memcpy(bytes.data() + kChecksumAt, &sum, sizeof(sum));
  return bytes;
}
std::string with_field(std::string bytes, size_t at, int64_t value) {
  std::memcpy(bytes.data() + at, &value, sizeof(value));
  return with_checksum(std::move(bytes));
}

class SavedState : public testing::Test {
 protected:
  SavedState() : layout_(layout_of("nano")), pool_(pool_of(*layout_, kPages)) {}
  void TearDown() override {
    holder_.reset();
    EXPECT_EQ(pool_.free_pages(), kPages) << "pages were lost";
  }

  std::string saved(int64_t length, int64_t window_begin = 0) {
    SequenceState state(layout_, &pool_);
    state.set_window_begin(window_begin);
    write(state, length, 1);
    return state.canonical();
  }
  // Restores into a state that holds something. A refusal must leave it, and the pool, as they were.
  Status refused(std::string_view bytes) {
    if (!holder_.has_value()) {
      holder_.emplace(layout_, &pool_);
      write(*holder_, 21, 5);
      held_ = holder_->canonical();
      free_ = pool_.free_pages();
    }
    const Status status = holder_->restore(bytes);
    if (status.ok()) {
      holder_.reset();
    } else {
      EXPECT_TRUE(holder_->canonical() == held_);
      EXPECT_EQ(pool_.free_pages(), free_);
    }
    return status;
  }

  static constexpr int64_t kPages = 64;
  std::shared_ptr<const StateLayout> layout_;
  PagePool pool_;
  std::optional<SequenceState> holder_;
  std::string held_;
  int64_t free_ = 0;
};

TEST_F(SavedState, RoundTrip) {
  for (const int64_t length : {0, 1, 2, 3, 15, 16, 17, 27, 28, 29, 63, 64, 65, 127, 128, 129, 333}) {
    for (const int64_t window_begin : {int64_t{0}, length / 2, length}) {
      const std::string bytes = saved(length, window_begin);
      SequenceState state(layout_, &pool_);
      write(state, 40, 9);  // whatever it held before is gone
      const Status status = state.restore(bytes);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(state.length(), length);
      EXPECT_EQ(state.window_begin(), window_begin);
      EXPECT_EQ(state.canonical_bytes(), static_cast<int64_t>(bytes.size()));
      ASSERT_EQ(state.canonical(), bytes) << length;
      state.poison_dead(std::byte{0xFF});
      ASSERT_EQ(state.canonical(), bytes) << length;
      EXPECT_TRUE(state.truncate(length).ok());
      EXPECT_FALSE(state.truncate(length - 1).ok()) << "the slack is not saved";
      write(state, length + 3, 1);
      EXPECT_EQ(state.canonical(), saved(length + 3, window_begin));
      EXPECT_TRUE(state.truncate(length + 1).ok());
    }
  }
}

// The page by hand: which bytes lie where.
TEST_F(SavedState, BytesAreWhereThePageSays) {
  const int64_t length = 5;
  const std::string bytes = saved(length);
  EXPECT_EQ(bytes.substr(0, 8), "DISTATE1");
  int64_t fields[12];
  std::memcpy(fields, bytes.data() + kCheckedFrom, sizeof(fields));
  const int64_t expected[12] = {16, 64, 10, 3, 5, 3, 0b011, 64 / 2 + 64 / 16, 64 / 2 + 64 / 32, 3, length, 0};
  for (int i = 0; i < 12; ++i) EXPECT_EQ(fields[i], expected[i]) << i;

  size_t at = kHeaderBytes;
  const auto next = [&](int64_t count, uint64_t what, int64_t position) {
    std::string part(static_cast<size_t>(count), '\0');
    state_test::fill(reinterpret_cast<std::byte*>(part.data()), count, what, position, 1);
    EXPECT_EQ(bytes.substr(at, part.size()), part) << what << " at " << position;
    at += part.size();
  };
  for (uint64_t ring = 0; ring < 13; ++ring) {
    for (int64_t p = 0; p < length; ++p) next(64 + 2, ring, p);
  }
  for (uint64_t source = 0; source < 3; ++source) {
    const int64_t ratio = source == 2 ? 1 : 2;
    for (int64_t j = 0; j < length / ratio; ++j) next(36, 1000 + source, j * ratio);
    for (int64_t j = 0; j < length / ratio; ++j) next(34, 2000 + source, j * ratio);
    if (ratio == 2) next(2 * 64 * 4, 3000 + source, length - 1);
  }
  for (int64_t p = length - 3; p < length; ++p) next(4, 4000, p);
  EXPECT_EQ(at, bytes.size());
}

TEST_F(SavedState, EveryTruncation) {
  const std::string bytes = saved(31);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const Status cut = refused(std::string_view(bytes).substr(0, size));
    ASSERT_EQ(cut.code(), Code::data_loss) << size << ": " << cut.message();
    if (size < kHeaderBytes) {
      ASSERT_EQ(cut.message(), fmt::format("saved state: {} bytes, a header alone takes 112", size));
      continue;
    }
    // Even with a checksum that fits.
    const Status sound = refused(with_checksum(bytes.substr(0, size)));
    ASSERT_EQ(sound.message(),
              fmt::format("saved state: {} bytes, a sequence of 31 tokens takes {}", size, bytes.size()));
  }
  EXPECT_EQ(refused(bytes + '\0').code(), Code::data_loss);
  EXPECT_EQ(refused(with_checksum(bytes + '\0')).code(), Code::data_loss);
  EXPECT_TRUE(refused(bytes).ok());
}

TEST_F(SavedState, EveryFlippedBit) {
  const std::string bytes = saved(31);
  for (size_t bit = 0; bit < 8 * bytes.size(); bit += bit < 8 * kHeaderBytes ? 1 : 7) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const Status status = refused(flipped);
    ASSERT_FALSE(status.ok()) << "bit " << bit;
    ASSERT_EQ(status.code(), bit < 8 * 8 ? Code::invalid_argument : Code::data_loss) << status.message();
  }
}

// A header that lies under a fitting checksum: refused, or what it says is what the state then says.
TEST_F(SavedState, EveryFlippedBitOfTheHeaderUnderAFittingChecksum) {
  for (const int64_t window_begin : {0, 31}) {
    const std::string bytes = saved(31, window_begin);
    for (size_t bit = 8 * kCheckedFrom; bit < 8 * kHeaderBytes; ++bit) {
      std::string flipped = bytes;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
      flipped = with_checksum(flipped);
      SequenceState state(layout_, &pool_);
      const Status status = state.restore(flipped);
      if (status.ok()) {
        ASSERT_GE(bit, 8 * kWindowBeginAt);
        ASSERT_EQ(state.canonical(), flipped);
      } else {
        ASSERT_EQ(state.length(), 0);
      }
    }
  }
}

TEST_F(SavedState, LyingLengths) {
  const std::string bytes = saved(31);
  for (const int64_t length : {int64_t{-1}, int64_t{30}, int64_t{32}, int64_t{1} << 20, int64_t{1} << 40,
                               (int64_t{1} << 40) + 1, int64_t{1} << 62, INT64_MAX, INT64_MIN}) {
    const Status status = refused(with_field(bytes, kLengthAt, length));
    EXPECT_EQ(status.code(), Code::data_loss) << length << ": " << status.message();
    EXPECT_NE(status.message().find(std::to_string(length)), std::string::npos) << status.message();
  }
  for (const int64_t begin : {int64_t{-1}, int64_t{32}, INT64_MAX, INT64_MIN}) {
    const Status status = refused(with_field(bytes, kWindowBeginAt, begin));
    EXPECT_EQ(status.code(), Code::data_loss) << begin;
    EXPECT_NE(status.message().find(std::to_string(begin)), std::string::npos) << status.message();
  }
}

TEST_F(SavedState, OfAnotherModel) {
  const auto odd = layout_of("odd");
  PagePool odd_pool = pool_of(*odd, 16);
  SequenceState other(odd, &odd_pool);
  write(other, 8, 1);
  const Status status = refused(other.canonical());
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(
      status.message(),
      "saved state: of a model with 5 layers, 2 draft stages, window 12, head_dim 96, 2 sources; accepted: 10, 3, "
      "16, 64, 3, with equal rows and compression ratios");

  const auto without_drafts = layout_of("nano", false);
  SequenceState same_model(without_drafts, &pool_);
  write(same_model, 8, 1);
  const std::string saved_without = same_model.canonical();
  same_model.clear();
  EXPECT_EQ(refused(saved_without).code(), Code::invalid_argument);

  EXPECT_EQ(refused(std::string(4096, '\0')).message(),
            "saved state: it does not begin with DISTATE1: no saved state, or of another version");
}

// A model without a cut for replay has no decoder windows that begin later.
TEST_F(SavedState, WindowsOfAModelThatCannotBeReplayed) {
  ModelConfig config = read_config(DI_SOURCE_DIR "/tests/golden/nano/config.json").value();
  config.engram_layer_ids = {1, 6};
  const auto layout = StateLayout::make(config, true);
  SequenceState state(layout, &pool_);
  write(state, 31, 1);
  const std::string bytes = state.canonical();
  EXPECT_TRUE(state.restore(bytes).ok());
  EXPECT_EQ(state.restore(with_field(bytes, kWindowBeginAt, 1)).code(), Code::data_loss);
}

TEST_F(SavedState, NoRoomForIt) {
  PagePool small = pool_of(*layout_, 6);
  SequenceState holder(layout_, &small), state(layout_, &small);
  write(holder, 2, 1);
  write(state, 3, 2);
  const std::string before = state.canonical();
  const std::string bytes = saved(100);
  const Status status = state.restore(bytes);
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_EQ(status.message(), "a saved state of 100 tokens needs 4 pages of context memory, 3 are free");
  EXPECT_EQ(state.canonical(), before);
  holder.clear();  // its own pages count: they come back first
  EXPECT_TRUE(state.restore(bytes).ok());
  EXPECT_EQ(state.canonical(), bytes);
}

}  // namespace
}  // namespace deepinfer
