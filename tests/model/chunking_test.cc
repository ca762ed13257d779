// One forward: logits, taps and state are the same bits however the tokens come: cut into runs, beside other sequences, in any order of
// runs, on any number of threads and any instruction set of the machine.
#include "support.h"

namespace deepinfer::props {
namespace {

const int64_t kChunks[] = {1, 2, 3, 7, 16, 17, 127, 128, 129, 0};

struct Case {
  const char* name;
  int64_t tokens;     // of the prompt that is cut
  int64_t max_batch;  // longest sequence of a batch
};

// Quick lengths pass the ring (28, 22, 140 rows), the window and the top k of each model; the full ones also tiny's candidate blocks (1025).
class Chunking : public testing::TestWithParam<Case> {};
class ChunkingFull : public testing::TestWithParam<Case> {};
class Company : public testing::TestWithParam<Case> {};
class CompanyFull : public testing::TestWithParam<Case> {};
const auto kName = [](const testing::TestParamInfo<Case>& info) { return std::string(info.param.name); };
const auto kQuick = testing::Values(Case{"nano", 290, 70}, Case{"odd", 290, 70}, Case{"tiny", 150, 24});
const auto kFull = testing::Values(Case{"nano", 900, 260}, Case{"odd", 1100, 260}, Case{"tiny", 1300, 300});
INSTANTIATE_TEST_SUITE_P(All, Chunking, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(All, ChunkingFull, kFull, kName);
INSTANTIATE_TEST_SUITE_P(All, Company, kQuick, kName);
INSTANTIATE_TEST_SUITE_P(All, CompanyFull, kFull, kName);

LoadOptions options_for(const Case& c) {
  LoadOptions options;
  options.max_step_tokens = std::max<int64_t>(c.tokens, 512);
  return options;
}

void check_chunk(Model& model, const Sequence& whole, int64_t chunk) {
  SCOPED_TRACE(fmt::format("{}, runs of {}", name_of(model), chunk));
  PagePool pool = dirty_pool(model, 1, static_cast<int64_t>(whole.tokens.size()));
  Sequence cut(model, pool, whole.tokens);
  ASSERT_NO_FATAL_FAILURE(run_chunks(model, cut, chunk));
  ASSERT_TRUE(same(cut, whole));
}

// Runs of random lengths, most of them short.
void check_mixed(Model& model, const Sequence& whole, Random& random) {
  SCOPED_TRACE(fmt::format("{}, mixed runs", name_of(model)));
  PagePool pool = dirty_pool(model, 1, static_cast<int64_t>(whole.tokens.size()));
  Sequence cut(model, pool, whole.tokens);
  while (cut.left() > 0) {
    const int64_t count = std::min(cut.left(), random.chance(0.3) ? 1 : 1 + random.below(random.chance(0.5) ? 8 : 150));
    ASSERT_NO_FATAL_FAILURE(step(model, {{&cut, count}}));
  }
  ASSERT_TRUE(same(cut, whole));
}

TEST_P(Chunking, EveryCutGivesTheSameBits) {
  const Case& c = GetParam();
  Random random(1);
  auto models = load_all(subject(c.name), options_for(c));
  Model& first = *models.front();
  PagePool pool = dirty_pool(first, 1, c.tokens);
  Sequence whole(first, pool, random_tokens(first.config(), c.tokens, random));
  ASSERT_NO_FATAL_FAILURE(run_chunks(first, whole, 0));
  ASSERT_TRUE(all_finite(whole));
  for (const int64_t chunk : kChunks) check_chunk(first, whole, chunk);
  // The big model meets some of the others in each run, the small ones all of them.
  for (auto& model : models) {
    if (c.name == std::string("tiny") && !random.chance(0.4)) continue;
    check_mixed(*model, whole, random);
  }
}

TEST_P(ChunkingFull, EveryCutOnEveryInstructionSetAndThreadCount) {
  const Case& c = GetParam();
  Random random(2);
  auto models = load_all(subject(c.name), options_for(c));
  Model& first = *models.front();
  PagePool pool = dirty_pool(first, 1, c.tokens);
  Sequence whole(first, pool, random_tokens(first.config(), c.tokens, random));
  ASSERT_NO_FATAL_FAILURE(run_chunks(first, whole, 0));
  ASSERT_TRUE(all_finite(whole));
  for (const int64_t chunk : kChunks) check_chunk(first, whole, chunk);
  for (auto& model : models) {
    // The slow sets see the long prompt once in mixed runs, and its beginning in every cut.
    check_mixed(*model, whole, random);
    const int64_t beginning = 300;
    PagePool small = dirty_pool(*model, 1, beginning);
    Sequence head(*model, small, {whole.tokens.begin(), whole.tokens.begin() + beginning});
    ASSERT_NO_FATAL_FAILURE(run_chunks(*model, head, 0));
    for (size_t p = 0; p < head.logits.size(); ++p) ASSERT_TRUE(same_bits(head.logits[p], whole.logits[p])) << p;
    for (const int64_t chunk : kChunks) check_chunk(*model, head, chunk);
  }
}

// Sequences of many lengths, computed alone, then all together: each step takes any of them in any order, prefill beside decode, on any of
// the models (a state is a value: it does not know which one wrote it).
void check_company(std::vector<std::unique_ptr<Model>>& models, int64_t count, int64_t longest, Random& random) {
  Model& first = *models.front();
  PagePool pool = dirty_pool(first, 2 * count, longest);
  std::vector<std::unique_ptr<Sequence>> alone, together;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t length = i == 0 ? 1 : i == 1 ? longest : random.between(1, longest);
    alone.push_back(std::make_unique<Sequence>(first, pool, random_tokens(first.config(), length, random)));
    together.push_back(std::make_unique<Sequence>(first, pool, alone.back()->tokens));
    ASSERT_NO_FATAL_FAILURE(run_chunks(first, *alone.back(), 0));
  }
  for (;;) {
    std::vector<Piece> pieces;
    int64_t room = first.limits().max_step_tokens;
    for (auto& s : together) {
      if (s->left() == 0 || random.chance(0.25)) continue;
      const int64_t most = std::min({s->left(), room, random.chance(0.5) ? int64_t{1} : random.between(2, longest)});
      if (most == 0) continue;
      const LogitRows rows = random.chance(0.6)   ? LogitRows::all
                             : random.chance(0.5) ? LogitRows::last
                                                  : LogitRows::none;
      pieces.push_back({s.get(), most, rows});
      room -= most;
    }
    random.shuffle(pieces);
    Model& model = *models[static_cast<size_t>(random.below(static_cast<int64_t>(models.size())))];
    if (pieces.empty()) continue;
    SCOPED_TRACE(name_of(model));
    ASSERT_NO_FATAL_FAILURE(step(model, pieces));
    bool done = true;
    for (auto& s : together) done = done && s->left() == 0;
    if (done) break;
  }
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same(*together[static_cast<size_t>(i)], *alone[static_cast<size_t>(i)])) << "sequence " << i;
  }
}

TEST_P(Company, AloneOrWithOthers) {
  const Case& c = GetParam();
  Random random(3);
  auto models = load_all(subject(c.name), options_for(c));
  for (const int64_t others : {1, 3, 7}) {
    SCOPED_TRACE(fmt::format("{} others", others));
    ASSERT_NO_FATAL_FAILURE(check_company(models, others + 1, c.max_batch, random));
  }
}

TEST_P(CompanyFull, AloneOrWithOthers) {
  const Case& c = GetParam();
  Random random(4);
  auto models = load_all(subject(c.name), options_for(c));
  for (int64_t others = 1; others <= 7; ++others) {
    SCOPED_TRACE(fmt::format("{} others", others));
    ASSERT_NO_FATAL_FAILURE(check_company(models, others + 1, c.max_batch, random));
  }
}

// Runs of one step in another order: rows move, their bits do not.
TEST_P(Company, OrderOfRuns) {
  const Case& c = GetParam();
  Random random(5);
  auto models = load_two(subject(c.name), options_for(c));
  constexpr size_t kSequences = 6;
  PagePool pool = dirty_pool(*models[0], 4 * kSequences, 40);
  std::vector<std::vector<int32_t>> prompts;
  for (size_t i = 0; i < kSequences; ++i)
    prompts.push_back(random_tokens(models[0]->config(), i < 2 ? 3 : random.between(3, 12), random));
  std::vector<std::unique_ptr<Sequence>> first;
  for (int round = 0; round < 4; ++round) {
    std::vector<std::unique_ptr<Sequence>> now;
    std::vector<Piece> pieces;
    for (const auto& prompt : prompts) {
      now.push_back(std::make_unique<Sequence>(*models[0], pool, prompt));
      pieces.push_back({now.back().get(), static_cast<int64_t>(prompt.size()) - 2});
    }
    if (round > 0) random.shuffle(pieces);
    Model& model = *models[static_cast<size_t>(round % 2)];
    ASSERT_NO_FATAL_FAILURE(step(model, pieces));
    for (int decode = 0; decode < 2; ++decode) {
      for (Piece& piece : pieces) piece.count = 1;
      if (round > 0) random.shuffle(pieces);
      ASSERT_NO_FATAL_FAILURE(step(model, pieces));
    }
    for (size_t i = 0; i < kSequences && round > 0; ++i) ASSERT_TRUE(same(*now[i], *first[i])) << "sequence " << i;
    if (round == 0) first = std::move(now);
  }
}

// The largest step that was planned for, all of it runs of one token; and all of it one run longer than any ring.
TEST(LargestStep, OnlyRunsOfOneToken) {
  Random random(6);
  for (const char* name : {"nano", "odd"}) {
    LoadOptions options;
    options.max_step_tokens = 600;
    options.threads = 2;
    auto model = load(subject(name), options);
    constexpr int64_t kRuns = 600;
    PagePool pool = dirty_pool(*model, kRuns + 1, 64);
    std::vector<std::unique_ptr<Sequence>> all;
    for (int64_t i = 0; i < kRuns; ++i)
      all.push_back(std::make_unique<Sequence>(*model, pool, random_tokens(model->config(), 3, random)));
    for (int64_t p = 0; p < 3; ++p) {
      std::vector<Piece> pieces;
      for (auto& s : all) pieces.push_back({s.get(), 1});
      ASSERT_NO_FATAL_FAILURE(step(*model, pieces));
    }
    for (int64_t i = 0; i < kRuns; i += 97) {
      Sequence alone(*model, pool, all[static_cast<size_t>(i)]->tokens);
      ASSERT_NO_FATAL_FAILURE(run_chunks(*model, alone, 0));
      ASSERT_TRUE(same(alone, *all[static_cast<size_t>(i)])) << i;
    }
  }
}

// A run far longer than the window, on several threads: scratch is planned for steps, not for windows.
TEST(LargestStep, OneLongRun) {
  Random random(7);
  LoadOptions options;
  options.max_step_tokens = 1024;  // nano's whole context
  options.threads = 3;
  options.max_logit_rows = 1024;
  auto model = load(subject("nano"), options);
  PagePool pool = dirty_pool(*model, 2, 1024);
  Sequence whole(*model, pool, random_tokens(model->config(), 1024, random));
  Sequence cut(*model, pool, whole.tokens);
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, whole, 0));
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, cut, 333));
  ASSERT_TRUE(same(whole, cut));
}

}  // namespace
}  // namespace deepinfer::props
