// truncate(), poison_dead(), moving and page accounts of SequenceState, with written entries in place of a model.
#include <gtest/gtest.h>

#include "written_state.h"

namespace deepinfer {
namespace {

using state_test::layout_of;
using state_test::pool_of;
using state_test::write;

constexpr uint64_t kKept = 1, kRejected = 2;

class Rollback : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    layout_ = layout_of(GetParam());
    pool_.emplace(pool_of(*layout_, kPages));
  }
  void TearDown() override { EXPECT_EQ(pool_->free_pages(), kPages) << "pages were lost"; }
  SequenceState fresh() { return SequenceState(layout_, &*pool_); }
  std::string written(int64_t length) {
    SequenceState state = fresh();
    write(state, length, kKept);
    return state.canonical();
  }

  static constexpr int64_t kPages = 64;
  std::shared_ptr<const StateLayout> layout_;
  std::optional<PagePool> pool_;
};

INSTANTIATE_TEST_SUITE_P(Configs, Rollback, testing::Values("nano", "odd"));

// After up to `rollback` extra positions and back, nothing is left of them: at every length over more than two turns of the rings, and of
// the carries and tail, whose periods differ.
TEST_P(Rollback, LeavesNothingBehind) {
  for (int64_t length = 0; length <= 2 * layout_->ring_rows + 7; ++length) {
    const std::string expected = written(length);
    for (int64_t extra = 0; extra <= layout_->rollback; ++extra) {
      SequenceState state = fresh();
      write(state, length, kKept);
      write(state, length + extra, kRejected);
      const Status status = state.truncate(length);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_EQ(state.length(), length);
      ASSERT_EQ(state.canonical(), expected) << "length " << length << ", " << extra << " rejected";
    }
  }
}

// One long life of writing ahead and truncating, never starting over.
TEST_P(Rollback, RandomLife) {
  SequenceState state = fresh();
  int64_t length = 0;
  for (uint64_t i = 0; i < 600 && length < 600; ++i) {
    const uint64_t word = random_word(3, i);
    const int64_t block = 1 + static_cast<int64_t>(word % static_cast<uint64_t>(layout_->rollback));
    const int64_t kept = static_cast<int64_t>((word >> 8) % static_cast<uint64_t>(block + 1));
    write(state, length + kept, kKept);
    write(state, length + block, kRejected);
    ASSERT_TRUE(state.truncate(length + kept).ok());
    length += kept;
    if ((word >> 20) % 8 == 0) state.poison_dead(static_cast<std::byte>(word >> 32));
    ASSERT_EQ(state.canonical(), written(length)) << length;
  }
}

TEST_P(Rollback, Limits) {
  const int64_t r = layout_->rollback;
  SequenceState state = fresh();
  EXPECT_TRUE(state.truncate(0).ok());
  EXPECT_FALSE(state.truncate(1).ok());
  EXPECT_FALSE(state.truncate(-1).ok());
  write(state, 5, kKept);
  EXPECT_TRUE(state.truncate(0).ok());
  write(state, 100, kKept);
  const std::string before = state.canonical();
  const Status deep = state.truncate(100 - r - 1);
  ASSERT_FALSE(deep.ok());
  EXPECT_EQ(deep.code(), Code::invalid_argument);
  EXPECT_EQ(deep.message(),
            fmt::format("truncate to {} tokens: the state holds 100 and can go back to {}", 100 - r - 1, 100 - r));
  EXPECT_EQ(state.truncate(101).message(),
            fmt::format("truncate to 101 tokens: the state holds 100 and can go back to {}", 100 - r));
  EXPECT_EQ(state.canonical(), before) << "a refused truncate changed something";

  // The limit counts from the furthest position ever written: those entries are gone from the rings.
  ASSERT_TRUE(state.truncate(100 - 2).ok());
  ASSERT_TRUE(state.truncate(100 - 4).ok());
  write(state, 99, kKept);
  EXPECT_FALSE(state.truncate(100 - r - 1).ok());
  EXPECT_TRUE(state.truncate(100 - r).ok());
  EXPECT_FALSE(state.truncate(100 - r - 1).ok());
  EXPECT_TRUE(state.truncate(100 - r).ok()) << "staying where it is must always work";
  EXPECT_EQ(state.canonical(), written(100 - r));

  // After clear() it is a new sequence.
  state.clear();
  EXPECT_EQ(pool_->free_pages(), kPages);
  EXPECT_EQ(state.canonical(), fresh().canonical());
  write(state, 3, kKept);
  EXPECT_TRUE(state.truncate(1).ok());
}

// Poisoning keeps what is live and gives up the slack: no way back from there.
TEST_P(Rollback, PoisonKeepsTheLive) {
  for (const int64_t length : {0, 1, 2, 7, 50, 51, 130, 200}) {
    for (const int byte : {0x00, 0x7F, 0xFF}) {
      SequenceState state = fresh();
      write(state, length, kKept);
      write(state, length + 3, kRejected);
      ASSERT_TRUE(state.truncate(length).ok());
      state.poison_dead(static_cast<std::byte>(byte));
      EXPECT_EQ(state.canonical(), written(length));
      if (length > 0) {
        const Status back = state.truncate(length - 1);
        EXPECT_EQ(back.message(), fmt::format("truncate to {0} tokens: the state holds {1} and can go back to {1}",
                                              length - 1, length));
      }
      write(state, length + 2, kKept);
      EXPECT_TRUE(state.truncate(length + 1).ok());
      EXPECT_TRUE(state.truncate(length).ok());
      EXPECT_EQ(state.canonical(), written(length));
    }
  }
}

// Poison reaches every dead byte: an all-dead state has no other byte, and dead rows of a page are overwritten.
TEST_P(Rollback, PoisonReachesTheDead) {
  SequenceState state = fresh();
  write(state, 9, kKept);
  ASSERT_TRUE(state.truncate(0).ok());
  state.poison_dead(std::byte{0xA5});
  for (int64_t r = 0; r < layout_->rings(); ++r) {
    for (int64_t b = 0; b < layout_->ring_bytes(); ++b) ASSERT_EQ(state.ring(r)[b], std::byte{0xA5});
  }
  for (int64_t t = 0; t < layout_->tail_rows; ++t) EXPECT_EQ(static_cast<uint32_t>(state.tail()[t]), 0xA5A5A5A5u);
  for (size_t s = 0; s < layout_->sources.size(); ++s) {
    const std::byte* row = state.rows(static_cast<int>(s)).kv(0);
    for (int64_t b = 0; b < layout_->page_bytes(); ++b) ASSERT_EQ(row[b], std::byte{0xA5});
    if (layout_->sources[s].ratio == 2) {
      EXPECT_EQ(reinterpret_cast<const uint32_t*>(state.carry(static_cast<int>(s), 0))[0], 0xA5A5A5A5u);
    }
  }
}

// A truncate below the first decoder position of a replayed prefill: positions from there on are computed in both halves.
TEST_P(Rollback, BelowTheReplayedSuffix) {
  SequenceState state = fresh();
  state.set_window_begin(40);
  write(state, 40, kKept);
  ASSERT_TRUE(state.truncate(37).ok());
  EXPECT_EQ(state.window_begin(), 37);
  SequenceState other = fresh();
  other.set_window_begin(37);
  write(other, 37, kKept);
  EXPECT_EQ(state.canonical(), other.canonical());
  write(state, 41, kKept);
  write(other, 41, kKept);
  EXPECT_EQ(state.canonical(), other.canonical());
}

TEST_P(Rollback, RoomThatIsNotThere) {
  PagePool small = pool_of(*layout_, layout_->pages_for(64));
  SequenceState state(layout_, &small);
  write(state, 64, kKept);
  EXPECT_EQ(small.free_pages(), 0);
  const std::string before = state.canonical();
  const Status full = state.reserve(66);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.code(), Code::resource_exhausted);
  EXPECT_EQ(full.message(), "a sequence of 66 tokens needs 1 more pages of context memory, 0 are free");
  EXPECT_EQ(state.canonical(), before);
  EXPECT_TRUE(state.reserve(64).ok());
  EXPECT_TRUE(state.reserve(10).ok()) << "less room than there is already";

  // When another sequence gives its pages back, it goes on.
  SequenceState other(layout_, &small);
  EXPECT_FALSE(other.reserve(2).ok());
  EXPECT_EQ(other.length(), 0);
  state.clear();
  EXPECT_TRUE(other.reserve(64).ok());
}

TEST_P(Rollback, Moving) {
  SequenceState a = fresh();
  write(a, 75, kKept);
  const std::string saved = a.canonical();
  const int64_t held = kPages - pool_->free_pages();
  ASSERT_GT(held, 0);
  SequenceState b = std::move(a);
  EXPECT_EQ(b.canonical(), saved);
  EXPECT_EQ(kPages - pool_->free_pages(), held);
  SequenceState c = fresh();
  write(c, 30, kRejected);
  c = std::move(b);  // its own pages go back
  EXPECT_EQ(kPages - pool_->free_pages(), held);
  EXPECT_EQ(c.canonical(), saved);
  SequenceState& same = c;
  c = std::move(same);
  EXPECT_EQ(c.canonical(), saved);
  a = std::move(c);  // into one that was moved from
  EXPECT_EQ(a.canonical(), saved);
  write(a, 80, kKept);
  EXPECT_EQ(a.canonical(), written(80));
  ASSERT_TRUE(a.truncate(76).ok()) << "how far back it can go moves along";
  std::vector<SequenceState> many;
  for (int i = 0; i < 5; ++i) many.push_back(fresh());
  many[3] = std::move(a);
  many.erase(many.begin());
  EXPECT_EQ(many[2].canonical(), written(76));
}

}  // namespace
}  // namespace deepinfer
