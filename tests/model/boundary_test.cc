// The edges of a step: the last position of a context and the one behind it, nothing at all, too much, and errors before and in the middle.
// A refused step leaves every state as it was.
#include <cstring>
#include <fstream>

#include "checkpoint/synth.h"
#include "support.h"

namespace deepinfer::props {
namespace {

// Forwards `runs` and expects a refusal that changes nothing.
Status refused(Model& model, const StepRuns& runs) {
  std::vector<std::string> before;
  for (const Run& run : runs) before.push_back(run.state->canonical());
  const auto result = model.forward({runs, nullptr});
  EXPECT_FALSE(result.ok());
  for (size_t i = 0; i < runs.size(); ++i) {
    EXPECT_TRUE(runs[i].state->canonical() == before[i]) << "a refused step changed sequence " << i;
  }
  return result.status();
}

// N positions work, position N + 1 is refused, and the sequence is still there: it can be taken back a little and go on.
void check_last_position(Model& model, int64_t n, Random& random) {
  PagePool pool = dirty_pool(model, 3, n);
  const std::vector<int32_t> tokens = random_tokens(model.config(), n + 1, random);
  const std::string expected = fmt::format("a sequence of {} tokens is longer than the context of {}", n + 1, n);
  Sequence whole(model, pool, {tokens.begin(), tokens.end() - 1});
  SequenceState none = dirty_state(model, pool);
  EXPECT_EQ(refused(model, {{&none, tokens, LogitRows::none, 0}}).message(), expected);

  ASSERT_NO_FATAL_FAILURE(run_chunks(model, whole, n - 1));
  ASSERT_EQ(whole.state.length(), n);
  ASSERT_TRUE(all_finite(whole));
  const std::span<const int32_t> one(&tokens.back(), 1);
  const Status full = refused(model, {{&whole.state, one, LogitRows::last, 0}});
  EXPECT_EQ(full.code(), Code::resource_exhausted);
  EXPECT_EQ(full.message(), expected);

  // A full sequence stops its step, and its step only: the other goes on.
  Sequence other(model, pool, {1, 2, 3, 4});
  ASSERT_NO_FATAL_FAILURE(step(model, {{&other, 2}}));
  EXPECT_EQ(
      refused(model, {{&other.state, one, LogitRows::last, 0}, {&whole.state, one, LogitRows::last, 0}}).message(),
      expected);
  ASSERT_NO_FATAL_FAILURE(run_chunks(model, other, 1));

  ASSERT_TRUE(whole.state.truncate(n - 3).ok());
  const std::vector<std::vector<float>> before = whole.logits;
  ASSERT_NO_FATAL_FAILURE(run_chunks(model, whole, 2));
  for (int64_t p = n - 3; p < n; ++p)
    EXPECT_TRUE(same_bits(whole.logits[static_cast<size_t>(p)], before[static_cast<size_t>(p)]));
}

TEST(MaximumLength, TheModelsOwn) {
  Random random(50);
  LoadOptions options;
  options.max_step_tokens = 2048;
  options.threads = 2;
  ASSERT_NO_FATAL_FAILURE(check_last_position(*load(subject("nano"), options), 1024, random));
  ASSERT_NO_FATAL_FAILURE(check_last_position(*load(subject("odd"), options), 1280, random));
}

TEST(MaximumLength, ALimitBelow) {
  Random random(51);
  for (const int64_t n : {16, 29, 64, 65, 129}) {
    LoadOptions options;
    options.max_context = n;
    ASSERT_NO_FATAL_FAILURE(check_last_position(*load(subject("nano"), options), n, random));
  }
}

TEST(MaximumLength, LimitsAreChecked) {
  const Subject& nano = subject("nano");
  const auto message = [&](auto change) {
    ModelLimits limits;
    limits.threads = 1;
    change(limits);
    const auto model = Model::load(nano.checkpoint, nano.classes, limits);
    return model.ok() ? std::string("accepted") : model.status().message();
  };
  EXPECT_EQ(message([](ModelLimits& l) { l.max_context = 1025; }),
            "max_context: 1025, accepted are 1 to 1024 (max_position_embeddings)");
  EXPECT_NE(message([](ModelLimits& l) { l.max_context = -1; }), "accepted");
  EXPECT_EQ(message([](ModelLimits& l) { l.max_context = 1; }), "accepted");
  EXPECT_EQ(message([](ModelLimits& l) { l.max_step_tokens = 0; }), "max_step_tokens: 0, accepted are 1 to 1048576");
  EXPECT_EQ(message([](ModelLimits& l) { l.max_step_tokens = INT64_MAX; }),
            "max_step_tokens: 9223372036854775807, accepted are 1 to 1048576");
  EXPECT_NE(message([](ModelLimits& l) { l.max_runs = INT64_MAX; }), "accepted");
  EXPECT_NE(message([](ModelLimits& l) { l.max_logit_rows = INT64_MAX; }), "accepted");
  EXPECT_NE(message([](ModelLimits& l) { l.threads = 1 << 30; }), "accepted");
  EXPECT_EQ(message([](ModelLimits& l) { l.instruction_set = "sse9"; }),
            "instruction set 'sse9': accepted are avx512, avx2, portable");
}

TEST(ZeroLength, ARunWithoutTokensIsRefused) {
  auto model = load(subject("nano"));
  PagePool pool = dirty_pool(*model, 2, 64);
  SequenceState empty = dirty_state(*model, pool), other = dirty_state(*model, pool);
  const std::vector<int32_t> tokens = {1, 2, 3};
  const auto status = refused(*model, {{&other, tokens, LogitRows::all, 0}, {&empty, {}, LogitRows::all, 0}});
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_EQ(status.message(), "step: a run without tokens");
  EXPECT_EQ(other.length(), 0);
}

TEST(ZeroLength, AStepWithoutRuns) {
  auto model = load(subject("nano"));
  const auto result = model->forward({{}, nullptr});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->logits.rows, 0);
  EXPECT_EQ(result->main_hidden.rows, 0);
}

// What index sources select for each row, and what a probe sees of them.
struct SelectionProbe : Probe {
  void at(Point point, int layer, Rows<int32_t> rows) override {
    if (point != Point::topk) return;
    for (int64_t r = 0; r < rows.rows; ++r) selected[layer].emplace_back(rows.row(r), rows.row(r) + rows.cols);
  }
  std::map<int, std::vector<std::vector<int32_t>>> selected;
};

// The first token of a sequence: no ratio-2 group is complete, so those sources select nothing and their layers see the window alone; the
// open group's carry is there, and the second token completes it.
TEST(ZeroLength, NoCompleteGroup) {
  Random random(52);
  for (const char* name : {"nano", "odd"}) {
    SCOPED_TRACE(name);
    for (auto& model : load_two(subject(name))) {
      PagePool pool = dirty_pool(*model, 2, 8);
      Sequence s(*model, pool, random_tokens(model->config(), 3, random));
      for (int64_t p = 0; p < 3; ++p) {
        SelectionProbe probe;
        ASSERT_NO_FATAL_FAILURE(step(*model, {{&s, 1}}, &probe));
        for (const int layer : model->config().index_source_layer_ids) {
          const int ratio = model->config().compress_ratios[static_cast<size_t>(layer)];
          ASSERT_EQ(probe.selected[layer].size(), 1u);
          const std::vector<int32_t>& list = probe.selected[layer][0];
          const int64_t visible = (p + 1) / ratio;
          for (int64_t i = 0; i < static_cast<int64_t>(list.size()); ++i)
            EXPECT_EQ(list[static_cast<size_t>(i)], i < visible ? i : -1) << "layer " << layer << ", position " << p;
        }
      }
      ASSERT_TRUE(all_finite(s));
      Sequence whole(*model, pool, s.tokens);
      ASSERT_NO_FATAL_FAILURE(run_chunks(*model, whole, 0));
      ASSERT_TRUE(same(whole, s));
    }
  }
}

TEST(Refusals, NothingIsWritten) {
  Random random(53);
  LoadOptions options;
  options.max_step_tokens = 8;
  options.max_logit_rows = 3;
  options.max_runs = 2;
  auto model = load(subject("nano"), options);
  PagePool pool = dirty_pool(*model, 4, 64);
  const std::vector<int32_t> tokens = random_tokens(model->config(), 20, random);
  std::vector<SequenceState> states;
  for (int i = 0; i < 3; ++i) {
    states.push_back(dirty_state(*model, pool));
    ASSERT_TRUE(forward_one(*model, states.back(), std::span(tokens).first(5)).ok());
  }
  const auto run = [&](int i, int64_t count, LogitRows rows) {
    return StepRun{&states[static_cast<size_t>(i)], std::span(tokens).first(static_cast<size_t>(count)), rows, 0};
  };
  EXPECT_EQ(refused(*model, {run(0, 4, LogitRows::none), run(1, 5, LogitRows::none)}).message(),
            "step: 9 tokens, planned for 8");
  EXPECT_EQ(refused(*model, {run(0, 4, LogitRows::all)}).message(), "step: logits of 4 rows, planned for 3");
  EXPECT_EQ(
      refused(*model, {run(0, 1, LogitRows::none), run(1, 1, LogitRows::none), run(2, 1, LogitRows::none)}).message(),
      "step: 3 runs, planned for 2");
  for (const int32_t id : {-1, 512, INT32_MIN, INT32_MAX}) {
    const std::vector<int32_t> bad = {1, id, 2};
    const Status status = refused(*model, {run(1, 2, LogitRows::last), {&states[0], bad, LogitRows::last, 0}});
    EXPECT_EQ(status.message(), fmt::format("token id {}: the vocabulary has 512 ids", id));
  }
  EXPECT_TRUE(model->forward({StepRuns{run(0, 3, LogitRows::all), run(1, 5, LogitRows::none)}, nullptr}).ok());
}

// No pages for the second sequence of a step: the first is not moved on either, and both go on once there is room.
TEST(Refusals, NoPages) {
  Random random(54);
  auto model = load(subject("nano"));
  PagePool pool = dirty_pool(*model, 1, 128);  // 4 pages
  Sequence a(*model, pool, random_tokens(model->config(), 128, random)), b(*model, pool, a.tokens);
  ASSERT_NO_FATAL_FAILURE(step(*model, {{&a, 60}}));  // 3 pages
  const std::span<const int32_t> tokens(a.tokens);
  const Status status = refused(*model, {{&a.state, tokens.subspan(60, 20), LogitRows::none, 0},
                                         {&b.state, tokens.first(10), LogitRows::none, 0}});
  EXPECT_EQ(status.code(), Code::resource_exhausted);
  EXPECT_EQ(status.message(), "a sequence of 10 tokens needs 3 more pages of context memory, 0 are free");
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, a, 31));
  const auto logits = a.logits;
  a.state.clear();
  EXPECT_EQ(pool.free_pages(), pool.capacity());
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, b, 0));
  for (size_t p = 0; p < logits.size(); ++p) ASSERT_TRUE(same_bits(logits[p], b.logits[p])) << p;
}

// A synthetic checkpoint of which one scale byte is no number, opened without looking at the scales.
Subject damaged(const std::string& tensor, int64_t at) {
  const ScratchDir dir;
  const ModelConfig config = golden_config("nano");
  SynthOptions synth;
  synth.config_name = "nano";
  synth.seed = test_seed();
  synth.out_dir = dir.path();
  synth.shards = 1;
  EXPECT_TRUE(synthesize(config, synth).ok());
  std::string file;
  int64_t offset = 0;
  {
    const auto checkpoint = Checkpoint::open(dir.path());
    file = checkpoint->file_of(tensor);
    const auto tensors = SafetensorsFile::open(file);
    const std::byte* end = nullptr;  // the last tensor ends where the file does
    for (const auto& [name, view] : tensors->tensors()) end = std::max(end, view.data + view.bytes);
    offset = static_cast<int64_t>(std::filesystem::file_size(file)) - (end - tensors->find(tensor)->data) + at;
  }
  std::fstream out(file, std::ios::in | std::ios::out | std::ios::binary);
  out.seekp(offset);
  out.put('\xFF');
  out.close();
  CheckpointOptions options;
  options.scan_scale_bytes = 0;
  auto opened = Checkpoint::open(dir.path(), options);
  EXPECT_TRUE(opened.ok());
  EXPECT_FALSE(opened->scales_checked());
  return {"nano", std::make_shared<const Checkpoint>(std::move(*opened)), synth_token_map(config, "nano")};
}

// An error in the middle of a step: rings of the layers before it are written already, so the step's sequences are emptied. They are states
// like any others, with their pages back, and sequences outside the step have lost nothing.
TEST(InterruptedStep, LeavesDefinedStates) {
  Random random(55);
  for (const bool expert : {true, false}) {
    const std::string tensor = expert ? "layers.9.ffn.experts.6.w2.scale" : "layers.3.engram.embed.scale";
    SCOPED_TRACE(tensor);
    auto model = load(damaged(tensor, expert ? 5 : 700));
    auto whole = load(subject("nano"));  // the same weights, undamaged
    PagePool pool = dirty_pool(*model, 6, 900);
    Sequence outside(*model, pool, random_tokens(model->config(), 900, random));
    Sequence a(*model, pool, random_tokens(model->config(), 900, random)), b(*model, pool, a.tokens);
    // Short steps, until a token needs the damaged bytes.
    Status status;
    int64_t needed = 0;  // tokens up to the one that needs them
    for (; status.ok() && needed < 890; needed += 10) {
      const auto result = forward_one(*model, a.state, std::span<const int32_t>(a.tokens).subspan(needed, 10));
      status = result.status();
    }
    ASSERT_FALSE(status.ok()) << "no token needed the damaged scale";
    EXPECT_EQ(status.code(), Code::data_loss);
    EXPECT_NE(status.message().find(tensor), std::string::npos) << status.message();
    EXPECT_EQ(a.state.length(), 0);
    EXPECT_EQ(a.state.canonical() == SequenceState(model->layout(), &pool).canonical(), true);
    EXPECT_EQ(pool.free_pages(), pool.capacity());

    // Beside others: those of the failing step are emptied, the one outside is as it was and goes on.
    ASSERT_TRUE(forward_one(*whole, outside.state, std::span<const int32_t>(outside.tokens).first(33)).ok());
    const std::string before = outside.state.canonical();
    const int64_t held = pool.capacity() - pool.free_pages();
    const std::span<const int32_t> tokens(a.tokens);
    const int64_t from = std::max<int64_t>(0, needed - 480);
    const StepRuns runs = {{&b.state, tokens.first(7), LogitRows::last, 0},
                           {&a.state, tokens.subspan(from, needed - from), LogitRows::last, 0}};
    const auto result = model->forward({runs, nullptr});
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(a.state.length() + b.state.length(), 0);
    EXPECT_EQ(pool.capacity() - pool.free_pages(), held);
    EXPECT_EQ(outside.state.canonical() == before, true);

    // What is left works, with a model whose weights are sound.
    Sequence fresh(*whole, pool, {a.tokens.begin(), a.tokens.begin() + 50});
    ASSERT_NO_FATAL_FAILURE(run_chunks(*whole, fresh, 0));
    a.tokens.resize(50);
    a.logits.resize(50);
    a.taps.resize(50);
    a.state.poison_dead(std::byte{0xFF});
    ASSERT_NO_FATAL_FAILURE(run_chunks(*whole, a, 9));
    ASSERT_TRUE(same(a, fresh));
  }
}

}  // namespace
}  // namespace deepinfer::props
