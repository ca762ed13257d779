// Drafts (spec 9): what a draft gives depends on its own sequence alone, it writes no state, and decoding with drafts is plain decoding.
#include "support.h"

namespace deepinfer::props {
namespace {

struct Draft {
  std::vector<int32_t> ids;
  std::vector<float> confidence, logits;
};

std::vector<Draft> draft(Model& model, const std::vector<DraftRun>& runs) {
  const auto result = model.draft(runs);
  if (!result.ok()) {
    ADD_FAILURE() << result.status().message();
    return {};
  }
  const size_t block = static_cast<size_t>(model.config().dspark_block_size);
  std::vector<Draft> drafts(runs.size());
  for (size_t r = 0; r < runs.size(); ++r) {
    drafts[r].ids.assign(result->ids.begin() + static_cast<int64_t>(r * (block + 1)),
                         result->ids.begin() + static_cast<int64_t>((r + 1) * (block + 1)));
    drafts[r].confidence.assign(result->confidence.begin() + static_cast<int64_t>(r * block),
                                result->confidence.begin() + static_cast<int64_t>((r + 1) * block));
    const float* logits = result->logits.row(static_cast<int64_t>(r * block));
    drafts[r].logits.assign(logits, logits + static_cast<int64_t>(block) * result->logits.cols);
  }
  return drafts;
}

testing::AssertionResult same(const Draft& a, const Draft& b) {
  if (a.ids != b.ids) return testing::AssertionFailure() << "ids differ";
  const auto confidence = same_bits(a.confidence, b.confidence);
  if (!confidence) return testing::AssertionFailure() << "confidence: " << confidence.message();
  return same_bits(a.logits, b.logits);
}

class Drafts : public testing::TestWithParam<const char*> {};
class DraftsFull : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Drafts, testing::Values("nano", "odd", "tiny"));
INSTANTIATE_TEST_SUITE_P(All, DraftsFull, testing::Values("nano", "odd", "tiny"));

// Alone and beside others, in any order, on every instruction set and thread count; before the window is full and long after.
TEST_P(Drafts, DependOnTheirSequenceAlone) {
  Random random(30);
  auto models = load_all(subject(GetParam()));
  Model& first = *models.front();
  const ModelConfig& config = first.config();
  const int64_t window = config.sliding_window;
  const std::vector<int64_t> lengths = {1, 2, window - 1, window, window + 1, window + first.layout()->rollback + 3};
  PagePool pool = dirty_pool(first, static_cast<int64_t>(lengths.size()), window + 20);
  std::vector<std::unique_ptr<Sequence>> sequences;
  std::vector<DraftRun> runs;
  std::vector<Draft> alone;
  for (const int64_t length : lengths) {
    sequences.push_back(std::make_unique<Sequence>(first, pool, random_tokens(config, length, random)));
    ASSERT_NO_FATAL_FAILURE(run_chunks(first, *sequences.back(), 50, LogitRows::none));
    runs.push_back({&sequences.back()->state, static_cast<int32_t>(random.below(config.vocab_size))});
    const std::string before = sequences.back()->state.canonical();
    alone.push_back(draft(first, {runs.back()})[0]);
    EXPECT_EQ(sequences.back()->state.canonical() == before, true) << "a draft wrote into the state";
    EXPECT_EQ(alone.back().ids[0], runs.back().token);
    sequences.back()->state.poison_dead(std::byte{0xFF});
  }
  for (auto& model : models) {
    SCOPED_TRACE(name_of(*model));
    std::vector<size_t> order(runs.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    random.shuffle(order);
    order.resize(static_cast<size_t>(random.between(2, static_cast<int64_t>(order.size()))));
    std::vector<DraftRun> some;
    for (const size_t i : order) some.push_back(runs[i]);
    const std::vector<Draft> together = draft(*model, some);
    ASSERT_EQ(together.size(), some.size());
    for (size_t i = 0; i < order.size(); ++i) ASSERT_TRUE(same(together[i], alone[order[i]])) << lengths[order[i]];
  }
}

// The rings that drafts read are filled by forward: the same however the tokens came (their bytes are part of the canonical state), and
// truncating takes the rows of rejected positions with it.
TEST_P(Drafts, AfterAnyCutAndAnyRollback) {
  Random random(31);
  auto models = load_two(subject(GetParam()));
  const ModelConfig& config = models[0]->config();
  const int64_t length = config.sliding_window + 9;
  PagePool pool = dirty_pool(*models[0], 4, length + 20);
  const std::vector<int32_t> tokens = random_tokens(config, length, random);
  const int32_t next = static_cast<int32_t>(random.below(config.vocab_size));
  Sequence whole(*models[0], pool, tokens);
  ASSERT_NO_FATAL_FAILURE(run_chunks(*models[0], whole, 0, LogitRows::none));
  const Draft expected = draft(*models[0], {{&whole.state, next}})[0];
  for (const int64_t chunk :
       std::string(GetParam()) == "tiny" ? std::vector<int64_t>{17} : std::vector<int64_t>{1, 3, 17}) {
    Sequence cut(*models[1], pool, tokens);
    ASSERT_NO_FATAL_FAILURE(run_chunks(*models[1], cut, chunk, LogitRows::none));
    ASSERT_TRUE(same(draft(*models[0], {{&cut.state, next}})[0], expected)) << "runs of " << chunk;
    const std::vector<int32_t> rejected = random_tokens(config, models[0]->layout()->rollback, random);
    ASSERT_TRUE(forward_one(*models[1], cut.state, rejected).ok());
    ASSERT_TRUE(cut.state.truncate(length).ok());
    cut.state.poison_dead(std::byte{0x7F});
    ASSERT_TRUE(same(draft(*models[1], {{&cut.state, next}})[0], expected)) << "after a rollback";
  }
  // And they do depend on what is in the rings.
  std::vector<int32_t> others = tokens;
  others[others.size() - 2] = (others[others.size() - 2] + 1) % static_cast<int32_t>(config.vocab_size);
  Sequence other(*models[0], pool, others);
  ASSERT_NO_FATAL_FAILURE(run_chunks(*models[0], other, 0, LogitRows::none));
  EXPECT_NE(draft(*models[0], {{&other.state, next}})[0].logits, expected.logits);
}

int32_t argmax(std::span<const float> row) {
  return static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
}

// Greedy decoding by draft, verify and truncate, several sequences in a batch: the tokens and the state of plain greedy decoding.
void drafted_equals_plain(const char* name, int64_t count, Random& random) {
  auto models = load_two(subject(name));
  const ModelConfig& config = models[0]->config();
  const int64_t block = config.dspark_block_size;
  constexpr size_t kSequences = 3;
  PagePool pool = dirty_pool(*models[0], 2 * kSequences, count + 60);
  std::vector<std::vector<int32_t>> expected(kSequences);
  std::vector<SequenceState> plain, drafted;
  std::vector<int32_t> next(kSequences);
  for (size_t i = 0; i < kSequences; ++i) {
    const std::vector<int32_t> prompt = random_tokens(config, random.between(1, 40), random);
    plain.push_back(dirty_state(*models[0], pool));
    drafted.push_back(dirty_state(*models[0], pool));
    for (SequenceState* state : {&plain.back(), &drafted.back()}) {
      const Run run{state, prompt, LogitRows::last, 0};
      const auto result = models[0]->forward({{&run, 1}, nullptr});
      ASSERT_TRUE(result.ok()) << result.status().message();
      next[i] = argmax({result->logits.data, static_cast<size_t>(result->logits.cols)});
    }
    expected[i].push_back(next[i]);
    while (static_cast<int64_t>(expected[i].size()) < count + block + 1) {
      const auto result =
          forward_one(*models[0], plain[i], std::span<const int32_t>(&expected[i].back(), 1), LogitRows::last);
      ASSERT_TRUE(result.ok()) << result.status().message();
      expected[i].push_back(argmax({result->logits.data, static_cast<size_t>(result->logits.cols)}));
    }
    plain[i].clear();
    ASSERT_TRUE(forward_one(*models[0], plain[i], prompt).ok());
  }
  std::vector<std::vector<int32_t>> got(kSequences);
  int64_t steps = 0, accepted_drafts = 0;
  for (;; ++steps) {
    std::vector<size_t> live;
    for (size_t i = 0; i < kSequences; ++i) {
      if (static_cast<int64_t>(got[i].size()) < count) live.push_back(i);
    }
    if (live.empty()) break;
    random.shuffle(live);
    Model& model = *models[static_cast<size_t>(random.below(2))];
    std::vector<DraftRun> draft_runs;
    for (const size_t i : live) draft_runs.push_back({&drafted[i], next[i]});
    const std::vector<Draft> drafts = draft(model, draft_runs);
    ASSERT_EQ(drafts.size(), live.size());
    std::vector<Run> runs;
    for (size_t k = 0; k < live.size(); ++k) runs.push_back({&drafted[live[k]], drafts[k].ids, LogitRows::all, 0});
    const auto result = model.forward({runs, nullptr});
    ASSERT_TRUE(result.ok()) << result.status().message();
    for (size_t k = 0; k < live.size(); ++k) {
      const size_t i = live[k];
      const int64_t start = drafted[i].length() - (block + 1);
      int64_t kept = 0;
      for (;; ++kept) {
        got[i].push_back(drafts[k].ids[static_cast<size_t>(kept)]);
        const float* row = result->logits.row(static_cast<int64_t>(k) * (block + 1) + kept);
        next[i] = argmax({row, static_cast<size_t>(result->logits.cols)});
        if (kept == block || next[i] != drafts[k].ids[static_cast<size_t>(kept) + 1]) break;
      }
      accepted_drafts += kept;
      ASSERT_TRUE(drafted[i].truncate(start + kept + 1).ok());
    }
  }
  for (size_t i = 0; i < kSequences; ++i) {
    ASSERT_LE(got[i].size(), expected[i].size());
    expected[i].resize(got[i].size());
    ASSERT_EQ(got[i], expected[i]);
    ASSERT_TRUE(forward_one(*models[0], plain[i], got[i]).ok());
    ASSERT_TRUE(same_state(drafted[i], plain[i]));
  }
  std::printf("%s: %lld of %lld drafts accepted\n", name, static_cast<long long>(accepted_drafts),
              static_cast<long long>(steps * block));
}

TEST_P(Drafts, GreedyWithDraftsIsPlainGreedy) {
  Random random(32);
  drafted_equals_plain(GetParam(), std::string(GetParam()) == "tiny" ? 24 : 80, random);
}
TEST_P(DraftsFull, GreedyWithDraftsIsPlainGreedy) {
  Random random(33);
  drafted_equals_plain(GetParam(), 300, random);
}

TEST(DraftRefusals, NameTheReason) {
  Random random(34);
  LoadOptions options;
  options.drafts = false;
  auto without = load(subject("nano"), options);
  PagePool pool = dirty_pool(*without, 2, 64);
  SequenceState state(without->layout(), &pool);
  DraftRun run{&state, 1};
  EXPECT_EQ(without->draft({&run, 1}).status().message(), "draft: the model was loaded without drafts");

  options.drafts = true;
  options.max_step_tokens = 12;
  auto model = load(subject("nano"), options);
  Sequence s(*model, pool, random_tokens(model->config(), 4, random));
  run = {&s.state, 1};
  EXPECT_EQ(model->draft({&run, 1}).status().message(), "draft: the sequence is empty");
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, s, 0));
  run.token = 512;
  EXPECT_EQ(model->draft({&run, 1}).status().message(), "token id 512: the vocabulary has 512 ids");
  run.token = -1;
  EXPECT_FALSE(model->draft({&run, 1}).ok());
  run.token = 511;
  EXPECT_TRUE(model->draft({&run, 1}).ok());
  const std::vector<DraftRun> three(3, run);
  EXPECT_EQ(model->draft(three).status().message(), "draft: 15 rows, planned for 12");
  EXPECT_TRUE(model->draft({}).ok()) << "no sequence wants drafts";
}

}  // namespace
}  // namespace deepinfer::props
