// Bounded replay (spec 10): decoder layers see a suffix of the prompt. It is one forward called with a position, so it is as independent of
// cuts and company as any step; and what the encoder half makes is what it makes without.
#include "support.h"

namespace deepinfer::props {
namespace {

class Replay : public testing::TestWithParam<const char*> {};
class ReplayFull : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Replay, testing::Values("nano", "odd", "tiny"));
INSTANTIATE_TEST_SUITE_P(All, ReplayFull, testing::Values("nano", "odd", "tiny"));

int64_t keep(const Model& model) { return model.layout()->window + model.layout()->rollback; }

// The prompt with only its last row's logits; then `decode` tokens one by one.
void run_replay(Model& model, Sequence& s, int64_t prompt, int64_t chunk) {
  s.decoder_from = std::max<int64_t>(0, prompt - keep(model));
  while (s.state.length() < prompt) {
    const int64_t left = prompt - s.state.length(), count = chunk == 0 ? left : std::min(chunk, left);
    const bool last = count == left;
    ASSERT_NO_FATAL_FAILURE(step(model, {{&s, count, last ? LogitRows::last : LogitRows::none}}));
  }
}

// Around the length that is kept, and well beyond; of the big model fewer.
std::vector<int64_t> prompts(const Model& model, bool quick) {
  const int64_t k = keep(model);
  if (quick && k > 100) return {k, k + 5};
  return {1, k - 1, k, k + 1, k + 7, 2 * k + 3};
}

void check_cuts(const char* name, bool quick, Random& random) {
  auto models = load_two(subject(name));
  Model& model = *models[0];
  const int64_t decode = 10;
  for (const int64_t prompt : prompts(model, quick)) {
    SCOPED_TRACE(fmt::format("prompt of {}", prompt));
    PagePool pool = dirty_pool(model, 2, prompt + decode);
    Sequence whole(model, pool, random_tokens(model.config(), prompt + decode, random));
    ASSERT_NO_FATAL_FAILURE(run_replay(model, whole, prompt, 0));
    ASSERT_EQ(whole.state.window_begin(), std::max<int64_t>(0, prompt - keep(model)));
    while (whole.left() > 0) {
      ASSERT_NO_FATAL_FAILURE(step(model, {{&whole, 1}}));
    }
    ASSERT_TRUE(all_finite(whole));
    for (const int64_t chunk : {int64_t{1}, int64_t{2}, int64_t{7}, keep(model), keep(model) + 1, int64_t{64}}) {
      if (quick && chunk <= 2 && prompt > 100) continue;
      SCOPED_TRACE(fmt::format("runs of {}", chunk));
      Model& other = *models[static_cast<size_t>(random.below(2))];
      Sequence cut(other, pool, whole.tokens);
      ASSERT_NO_FATAL_FAILURE(run_replay(other, cut, prompt, chunk));
      while (cut.left() > 0) {
        const int64_t count = random.between(1, std::min<int64_t>(cut.left(), 4));
        ASSERT_NO_FATAL_FAILURE(step(other, {{&cut, count}}));
      }
      ASSERT_TRUE(same(cut, whole));
    }
  }
}

TEST_P(Replay, EveryCutGivesTheSameBits) {
  Random random(40);
  check_cuts(GetParam(), true, random);
}
TEST_P(ReplayFull, EveryCutGivesTheSameBits) {
  Random random(45);
  check_cuts(GetParam(), false, random);
}

// A prompt that fits the suffix is computed exactly; a longer one has the exact encoder rings, compressed rows, index keys, carries and tail.
TEST_P(Replay, WhatIsExact) {
  Random random(41);
  auto models = load_two(subject(GetParam()));
  Model& model = *models[0];
  const StateLayout& layout = *model.layout();
  const int64_t decode = 5;
  for (const int64_t prompt : prompts(model, true)) {
    SCOPED_TRACE(fmt::format("prompt of {}", prompt));
    PagePool pool = dirty_pool(model, 2, prompt + decode);
    Sequence exact(model, pool, random_tokens(model.config(), prompt + decode, random));
    Sequence replayed(model, pool, exact.tokens);
    ASSERT_NO_FATAL_FAILURE(step(model, {{&exact, prompt}}));
    ASSERT_NO_FATAL_FAILURE(run_replay(*models[1], replayed, prompt, 0));
    if (prompt <= keep(model)) {
      ASSERT_NO_FATAL_FAILURE(run_chunks(model, exact, 1));
      ASSERT_NO_FATAL_FAILURE(run_chunks(*models[1], replayed, 2));
      ASSERT_TRUE(same(replayed, exact));
      continue;
    }
    const std::string x = exact.state.canonical(), r = replayed.state.canonical();
    constexpr size_t kHeader = 112;
    const int64_t ring = std::min(prompt, layout.window) * layout.window_row_bytes;
    const size_t encoder = static_cast<size_t>(layout.decoder_start * ring);
    const size_t all_rings = static_cast<size_t>(layout.rings() * ring);
    ASSERT_EQ(x.size(), r.size()) << "the suffix is longer than the window";
    EXPECT_EQ(x.substr(kHeader, encoder) == r.substr(kHeader, encoder), true) << "encoder rings";
    EXPECT_EQ(x.substr(kHeader + all_rings) == r.substr(kHeader + all_rings), true) << "rows, carries or tail";
    EXPECT_EQ(x.substr(kHeader, all_rings) == r.substr(kHeader, all_rings), false) << "nothing was cut";
  }
}

// Replayed prompts beside exact ones and decode rows, whose suffixes begin at different places in the step.
TEST_P(Replay, BesideOthers) {
  Random random(42);
  auto models = load_two(subject(GetParam()));
  Model& first = *models[0];
  const int64_t longest = keep(first) + 40, decode = 4;
  constexpr size_t kSequences = 6;
  PagePool pool = dirty_pool(first, 2 * kSequences, longest + decode);
  std::vector<std::unique_ptr<Sequence>> alone, together;
  std::vector<int64_t> prompt;
  for (size_t i = 0; i < kSequences; ++i) {
    prompt.push_back(i % 2 == 0 ? random.between(keep(first), longest) : random.between(1, longest));
    alone.push_back(std::make_unique<Sequence>(first, pool, random_tokens(first.config(), prompt[i] + decode, random)));
    together.push_back(std::make_unique<Sequence>(first, pool, alone.back()->tokens));
    if (i % 3 == 0) {
      ASSERT_NO_FATAL_FAILURE(step(first, {{alone[i].get(), prompt[i], LogitRows::last}}));
    } else {
      ASSERT_NO_FATAL_FAILURE(run_replay(first, *alone[i], prompt[i], 0));
      together[i]->decoder_from = alone[i]->decoder_from;
    }
    ASSERT_NO_FATAL_FAILURE(run_chunks(first, *alone[i], 1));
  }
  for (bool more = true; more;) {
    more = false;
    std::vector<Piece> pieces;
    int64_t room = first.limits().max_step_tokens;
    for (size_t i = 0; i < kSequences; ++i) {
      Sequence& s = *together[i];
      const int64_t left = prompt[i] - s.state.length();
      more = more || s.left() > 0;
      if (s.left() == 0 || random.chance(0.2)) continue;
      const int64_t count = left <= 0 ? 1 : random.between(1, std::min(left, room));
      if (count > room) continue;
      room -= count;
      pieces.push_back({&s, count, count < left ? LogitRows::none : LogitRows::last});
    }
    if (pieces.empty()) continue;
    random.shuffle(pieces);
    ASSERT_NO_FATAL_FAILURE(step(*models[static_cast<size_t>(random.below(2))], pieces));
  }
  for (size_t i = 0; i < kSequences; ++i) ASSERT_TRUE(same(*together[i], *alone[i])) << "sequence " << i;
}

// Rolling back after a replay, to places inside the suffix and to where it began and before: then the tokens that follow are computed by all
// layers, as if the suffix had begun there.
void check_rollback(const char* name, bool quick, Random& random) {
  auto models = load_two(subject(name));
  Model& model = *models[0];
  const int64_t rollback = model.layout()->rollback, prompt = keep(model) + 5;
  PagePool pool = dirty_pool(model, 2, prompt + 2 * rollback);
  for (const int64_t suffix : {int64_t{0}, int64_t{1}, int64_t{3}, rollback, rollback + 1}) {
    for (const int64_t back : {int64_t{1}, int64_t{2}, rollback - 1, rollback}) {
      if (quick && random.chance(0.7)) continue;
      SCOPED_TRACE(fmt::format("suffix of {}, {} back", suffix, back));
      const std::vector<int32_t> tokens = random_tokens(model.config(), prompt + 6, random);
      Sequence s(model, pool, tokens), plain(model, pool, tokens);
      s.decoder_from = plain.decoder_from = prompt - suffix;
      ASSERT_NO_FATAL_FAILURE(step(model, {{&s, prompt, LogitRows::none}}));
      ASSERT_TRUE(s.state.truncate(prompt - back).ok());
      ASSERT_NO_FATAL_FAILURE(step(model, {{&plain, prompt - back, LogitRows::none}}));
      ASSERT_TRUE(same_state(s.state, plain.state));
      s.state.poison_dead(std::byte{0xFF});
      s.decoder_from = plain.decoder_from = 0;
      ASSERT_NO_FATAL_FAILURE(step(model, {{&s, 3}}));
      ASSERT_NO_FATAL_FAILURE(run_chunks(model, s, 1));
      ASSERT_NO_FATAL_FAILURE(run_chunks(*models[1], plain, 2));
      ASSERT_TRUE(same(s, plain));
    }
  }
}

TEST_P(Replay, Rollback) {
  Random random(43);
  check_rollback(GetParam(), std::string(GetParam()) == "tiny", random);
}
TEST_P(ReplayFull, Rollback) {
  Random random(46);
  check_rollback(GetParam(), false, random);
}

TEST(ReplayRefusals, NameTheReason) {
  Random random(44);
  auto model = load(subject("nano"));
  PagePool pool = dirty_pool(*model, 4, 100);
  const std::vector<int32_t> tokens = random_tokens(model->config(), 40, random);
  SequenceState state(model->layout(), &pool);
  const auto message = [&](LogitRows rows, int64_t from) {
    const auto result = forward_one(*model, state, tokens, rows, from);
    return result.ok() ? std::string("accepted") : result.status().message();
  };
  EXPECT_EQ(message(LogitRows::all, 1), "step: logits of position 0 are wanted, the decoder half starts at 1");
  EXPECT_EQ(message(LogitRows::last, 40), "step: logits of position 39 are wanted, the decoder half starts at 40");
  EXPECT_EQ(state.length(), 0);
  EXPECT_EQ(state.window_begin(), 0);
  EXPECT_EQ(message(LogitRows::last, 39), "accepted");
  EXPECT_EQ(message(LogitRows::last, 60),
            "step: the decoder half of this sequence has begun at 39, it cannot skip to 60");
  EXPECT_EQ(state.length(), 40);

  // Engram behind the first decoder layer: it would have to hash a suffix.
  ModelConfig config = golden_config("nano");
  config.engram_layer_ids = {1, 7};
  const ModelConfig checked = parse_config(config_to_json(config), "late Engram").value();
  auto late = load(synthetic(checked, "nano", test_seed()));
  SequenceState other(late->layout(), &pool);
  EXPECT_EQ(forward_one(*late, other, tokens, LogitRows::last, 10).status().message(),
            "step: this model has no decoder half to replay");
  Sequence whole(*late, pool, tokens), cut(*late, pool, tokens);
  ASSERT_NO_FATAL_FAILURE(run_chunks(*late, whole, 0));
  ASSERT_NO_FATAL_FAILURE(run_chunks(*late, cut, 7));
  ASSERT_TRUE(same(whole, cut));
}

}  // namespace
}  // namespace deepinfer::props
