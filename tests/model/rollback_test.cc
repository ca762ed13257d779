// Rolling back, saving and restoring: a state that has forgotten positions, or came out of a file, is the state that never saw them. Dead
// entries are poisoned, so that whoever reads one shows it.
#include "support.h"

namespace deepinfer::props {
namespace {

struct Case {
  const char* name;
  int64_t lengths;  // 0 .. lengths are visited
  double share;     // of the lengths that are tested; at the others the two states only move on
  bool every_extra;
};

class Truncate : public testing::TestWithParam<Case> {};
class TruncateFull : public testing::TestWithParam<Case> {};
const auto kName = [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); };
// nano's rings turn after 28 positions, odd's after 22, tiny's after 140; carries of nano after 14, its n-gram tail after 15.
const auto kQuick =
    testing::Values(Case{"nano", 60, 1, false}, Case{"odd", 48, 1, false}, Case{"tiny", 290, 0.06, false});
const auto kFull = testing::Values(Case{"nano", 430, 1, true}, Case{"odd", 260, 1, true}, Case{"tiny", 300, 1, false});
INSTANTIATE_TEST_SUITE_P(All, Truncate, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(All, TruncateFull, kFull, kName);

const std::byte kPoisons[] = {std::byte{0xFF}, std::byte{0x7F}, std::byte{0x00}, std::byte{0xA5}};

// Writes `extra` other tokens behind the state, in runs of any length, and takes them back.
void write_and_truncate(Model& model, Sequence& s, int64_t extra, Random& random) {
  const int64_t length = s.state.length();
  std::vector<int32_t> junk = random_tokens(model.config(), extra, random);
  for (int64_t done = 0; done < extra;) {
    const int64_t count = random.between(1, extra - done);
    const auto result =
        forward_one(model, s.state, std::span<const int32_t>(junk.data() + done, static_cast<size_t>(count)));
    ASSERT_TRUE(result.ok()) << result.status().message();
    done += count;
  }
  const Status status = s.state.truncate(length);
  ASSERT_TRUE(status.ok()) << status.message();
}

// Two states side by side: one that only ever moves forward, and one that writes ahead and takes it back at every tested length. Then the
// next token, on both: the same bits.
void sweep(const Case& c, Random& random) {
  auto models = load_two(subject(c.name));
  Model& model = *models[0];
  PagePool pool = dirty_pool(model, 2, c.lengths + 20);
  const std::vector<int32_t> tokens = random_tokens(model.config(), c.lengths + 1, random);
  Sequence plain(model, pool, tokens), tried(model, pool, tokens);
  const int64_t most = model.layout()->rollback;
  for (int64_t length = 0; length <= c.lengths; ++length) {
    const bool tested = random.chance(c.share);
    if (tested) {
      SCOPED_TRACE(fmt::format("length {}", length));
      for (int64_t extra = c.every_extra ? 1 : random.between(1, most); extra <= most; ++extra) {
        ASSERT_NO_FATAL_FAILURE(write_and_truncate(model, tried, extra, random));
        ASSERT_TRUE(same_state(tried.state, plain.state)) << extra << " positions taken back";
        if (!c.every_extra) break;
      }
      if (random.chance(0.5)) {
        tried.state.poison_dead(kPoisons[random.below(4)]);
        ASSERT_TRUE(same_state(tried.state, plain.state)) << "poisoned";
      }
    }
    // Untested stretches are walked in longer runs.
    int64_t count = 1;
    while (!tested && length + count <= c.lengths && count < 9) ++count;
    ASSERT_NO_FATAL_FAILURE(step(model, {{&plain, count}}));
    ASSERT_NO_FATAL_FAILURE(step(*models[static_cast<size_t>(random.below(2))], {{&tried, count}}));
    length += count - 1;
    ASSERT_TRUE(same(tried, plain)) << "after length " << length;
  }
}

TEST_P(Truncate, LeavesNothingBehind) {
  Random random(20);
  sweep(GetParam(), random);
}
TEST_P(TruncateFull, LeavesNothingBehindAtAnyLength) {
  Random random(21);
  sweep(GetParam(), random);
}

// Blocks of a token and 5 (odd: 4) drafts of which any number is accepted, one after the other, several sequences at a time: state bytes
// and logits of the accepted positions are those of plain decoding.
void random_accepts(const Case& c, int64_t length, Random& random) {
  auto models = load_two(subject(c.name));
  Model& model = *models[0];
  const int64_t drafts = model.config().dspark_block_size, sequences = 3;
  PagePool pool = dirty_pool(model, 2 * sequences, length + drafts + 1);
  std::vector<std::unique_ptr<Sequence>> plain, drafted;
  for (int64_t i = 0; i < sequences; ++i) {
    plain.push_back(std::make_unique<Sequence>(model, pool, random_tokens(model.config(), length, random)));
    drafted.push_back(std::make_unique<Sequence>(model, pool, plain.back()->tokens));
    const int64_t prompt = random.between(1, 30);
    ASSERT_NO_FATAL_FAILURE(step(model, {{plain.back().get(), prompt}}));
    ASSERT_NO_FATAL_FAILURE(step(model, {{drafted.back().get(), prompt}}));
  }
  for (bool more = true; more;) {
    more = false;
    std::vector<std::vector<int32_t>> blocks;
    std::vector<int64_t> accepted, starts;
    std::vector<Sequence*> live;
    for (auto& s : drafted) {
      if (s->left() < drafts + 1) continue;
      // The block as a draft head would make it: right up to some place, then wrong.
      accepted.push_back(random.between(0, drafts));
      const int64_t start = s->state.length();
      starts.push_back(start);
      blocks.emplace_back(s->tokens.begin() + start, s->tokens.begin() + start + drafts + 1);
      for (int64_t i = accepted.back() + 1; i <= drafts; ++i)
        blocks.back()[static_cast<size_t>(i)] = static_cast<int32_t>(random.below(model.config().vocab_size));
      live.push_back(s.get());
    }
    if (live.empty()) break;
    more = true;
    std::vector<Run> runs;
    for (size_t i = 0; i < live.size(); ++i) runs.push_back({&live[i]->state, blocks[i], LogitRows::all, 0});
    const auto result = models[static_cast<size_t>(random.below(2))]->forward({runs, nullptr});
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (size_t i = 0; i < live.size(); ++i) {
      const int64_t kept = starts[i] + accepted[i] + 1;
      for (int64_t k = 0; k <= accepted[i]; ++k) {
        const float* row = result->logits.row(static_cast<int64_t>(i) * (drafts + 1) + k);
        live[i]->logits[static_cast<size_t>(starts[i] + k)].assign(row, row + result->logits.cols);
      }
      ASSERT_TRUE(live[i]->state.truncate(kept).ok());
      if (random.chance(0.2)) live[i]->state.poison_dead(kPoisons[random.below(4)]);
      Sequence* other = nullptr;
      for (size_t s = 0; s < drafted.size(); ++s) other = drafted[s].get() == live[i] ? plain[s].get() : other;
      while (other->state.length() < kept) {
        ASSERT_NO_FATAL_FAILURE(step(model, {{other, 1}}));
      }
      ASSERT_TRUE(same(*live[i], *other)) << accepted[i] << " of " << drafts << " accepted at " << starts[i];
    }
  }
}

TEST_P(Truncate, AnyNumberOfAcceptedDrafts) {
  Random random(22);
  random_accepts(GetParam(), std::string(GetParam().name) == "tiny" ? 60 : 150, random);
}
TEST_P(TruncateFull, AnyNumberOfAcceptedDrafts) {
  Random random(23);
  random_accepts(GetParam(), std::string(GetParam().name) == "tiny" ? 400 : 900, random);
}

// Saved at a length, odd or even, and restored into another pool: it goes on with the same bits, in whatever runs.
void save_and_restore(const Case& c, Random& random) {
  auto models = load_two(subject(c.name));
  Model& model = *models[0];
  const int64_t go_on = 9;
  PagePool pool = dirty_pool(model, 1, c.lengths + 20), other_pool = dirty_pool(model, 1, c.lengths + 20);
  const std::vector<int32_t> tokens = random_tokens(model.config(), c.lengths + go_on + 1, random);
  Sequence plain(model, pool, tokens);
  std::vector<std::pair<int64_t, std::string>> saved;
  while (plain.left() > 0) {
    const int64_t length = plain.state.length();
    if (length % 2 == 1 ? random.chance(std::min(1.0, 2 * c.share)) : random.chance(c.share))
      saved.emplace_back(length, plain.state.canonical());
    ASSERT_NO_FATAL_FAILURE(step(model, {{&plain, 1}}));
  }
  for (const auto& [length, bytes] : saved) {
    if (length > c.lengths) continue;
    SCOPED_TRACE(fmt::format("saved at {}", length));
    Sequence restored(model, other_pool, {tokens.begin(), tokens.begin() + length + go_on});
    const Status status = restored.state.restore(bytes);
    ASSERT_TRUE(status.ok()) << status.message();
    restored.state.poison_dead(kPoisons[random.below(4)]);
    while (restored.left() > 0) {
      const int64_t count = random.between(1, std::min<int64_t>(restored.left(), 4));
      ASSERT_NO_FATAL_FAILURE(step(*models[static_cast<size_t>(random.below(2))], {{&restored, count}}));
    }
    for (int64_t p = length; p < length + go_on; ++p) {
      ASSERT_TRUE(same_bits(restored.logits[static_cast<size_t>(p)], plain.logits[static_cast<size_t>(p)])) << p;
    }
    const auto later = std::find_if(saved.begin(), saved.end(), [&](auto& s) { return s.first == length + go_on; });
    if (later != saved.end()) {
      ASSERT_EQ(restored.state.canonical() == later->second, true);
    }
  }
}

TEST_P(Truncate, SaveAndRestore) {
  Random random(24);
  save_and_restore(GetParam(), random);
}
TEST_P(TruncateFull, SaveAndRestore) {
  Random random(25);
  Case c = GetParam();
  c.share = std::min(c.share, 0.3);
  save_and_restore(c, random);
}

// Bytes that pass every check of restore(), and mean nothing: any answer is right, a crash is not.
TEST(RestoredRubbish, RunsWithoutHarm) {
  Random random(26);
  for (const char* name : {"nano", "odd"}) {
    auto models = load_two(subject(name));
    Model& model = *models[0];
    PagePool pool = dirty_pool(model, 2, 200);
    for (int round = 0; round < 12; ++round) {
      Sequence s(model, pool, random_tokens(model.config(), 110, random));
      ASSERT_NO_FATAL_FAILURE(step(model, {{&s, 99}}));
      // In place, behind the checks: every byte of what restore() would have copied.
      const StateLayout& layout = *model.layout();
      const int kind = round % 4;
      const auto rubbish = [&](std::byte* data, int64_t count) {
        for (int64_t i = 0; i < count; ++i)
          data[i] = kind == 0 ? std::byte{0xFF} : kind == 1 ? std::byte{0x7F} : static_cast<std::byte>(random.word());
      };
      rubbish(s.state.ring(0), layout.fixed_bytes);
      for (size_t source = 0; source < layout.sources.size(); ++source)
        rubbish(s.state.rows(static_cast<int>(source)).kv(0), layout.page_bytes());
      SequenceState restored(model.layout(), &pool);
      ASSERT_TRUE(restored.restore(s.state.canonical()).ok());
      s.state = std::move(restored);
      Model& other = *models[static_cast<size_t>(random.below(2))];
      ASSERT_NO_FATAL_FAILURE(step(other, {{&s, 1}}));
      ASSERT_NO_FATAL_FAILURE(step(other, {{&s, 10}}));
      const DraftRun draft{&s.state, 5};
      ASSERT_TRUE(other.draft({&draft, 1}).ok());
    }
  }
}

}  // namespace
}  // namespace deepinfer::props
