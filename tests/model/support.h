// What the property tests of the model share: models with fresh weights and prompts in each process, states whose unused bytes are poisoned,
// and bitwise comparison.
//
// Seeds   every process draws one and prints it; DI_TEST_SEED repeats a run. Synthetic weights come from it too.
// Models  "nano", "odd": tests/golden/NAME/config.json with synthetic weights; "tiny": models/deepseek-v4.1-tiny.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "model/model.h"

namespace deepinfer::props {

uint64_t test_seed();

// A stream of random words; `stream` keeps the draws of one test apart from another's.
class Random {
 public:
  explicit Random(uint64_t stream) : base_(random_word(test_seed(), stream)) {}
  uint64_t word() { return random_word(base_, next_++); }
  int64_t below(int64_t n) { return static_cast<int64_t>(word() % static_cast<uint64_t>(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
  bool chance(double p) { return static_cast<double>(word() >> 11) * 0x1p-53 < p; }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[static_cast<size_t>(below(i))]);
  }

 private:
  uint64_t base_;
  uint64_t next_ = 0;
};

// A directory that is gone at the end.
class ScratchDir {
 public:
  ScratchDir();
  ~ScratchDir();
  ScratchDir(const ScratchDir&) = delete;
  ScratchDir& operator=(const ScratchDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Subject {
  std::string name;
  std::shared_ptr<const Checkpoint> checkpoint;
  std::vector<int32_t> classes;  // of the n-gram hash
  const ModelConfig& config() const { return checkpoint->config(); }
};

// Synthetic weights for a configuration; `map_name` names the token map's stream (SYNTH.md 6).
Subject synthetic(const ModelConfig& config, const std::string& map_name, uint64_t seed,
                  const CheckpointOptions& options = {});
ModelConfig golden_config(const std::string& name);
// One of the three models; made once in a process.
const Subject& subject(const std::string& name);

struct LoadOptions {
  int threads = 1;
  std::string instruction_set;  // empty: the best
  int64_t max_step_tokens = 512;
  int64_t max_context = 0;
  bool drafts = true;
  int64_t max_logit_rows = 0;
  int64_t max_runs = 0;
};
std::unique_ptr<Model> load(const Subject& subject, const LoadOptions& options = {});

// Every combination of instruction set and thread count that a test can meet: all sets of this machine by 1, 2 and 3 threads.
std::vector<std::unique_ptr<Model>> load_all(const Subject& subject, const LoadOptions& options = {});
// Two of them: the best set with one thread; the plainest (tiny: the best, for time) with two. Enough for tests whose subject is another.
std::vector<std::unique_ptr<Model>> load_two(const Subject& subject, const LoadOptions& options = {});

// A pool whose pages are full of 0xFF (not-a-number in every format) for so many sequences of so many tokens.
PagePool dirty_pool(const Model& model, int64_t sequences, int64_t tokens);
// An empty state whose fixed block is full of 0xFF.
SequenceState dirty_state(const Model& model, PagePool& pool);

// Ids over the whole vocabulary; a few are image tokens.
std::vector<int32_t> random_tokens(const ModelConfig& config, int64_t count, Random& random);

// One sequence on its way through its tokens, and what came out so far.
struct Sequence {
  Sequence(const Model& model, PagePool& pool, std::vector<int32_t> ids);

  std::vector<int32_t> tokens;
  SequenceState state;
  int64_t decoder_from = 0;  // of every run (bounded replay)
  // By position; rows that no step wanted are empty.
  std::vector<std::vector<float>> logits;
  std::vector<std::vector<uint16_t>> taps;

  int64_t left() const { return static_cast<int64_t>(tokens.size()) - state.length(); }
};

// The next `count` tokens of a sequence.
struct Piece {
  Sequence* sequence = nullptr;
  int64_t count = 0;
  LogitRows rows = LogitRows::all;
};

// One step; fails the test on an error.
void step(Model& model, const std::vector<Piece>& pieces, Probe* probe = nullptr);
// The rest of a sequence in runs of `chunk` tokens (0: one run).
void run_chunks(Model& model, Sequence& sequence, int64_t chunk, LogitRows rows = LogitRows::all);

// Names for use inside a gtest body, where Run is something else.
using StepRun = Run;
using StepRuns = std::vector<Run>;

// One run in a step of its own.
Result<StepResult> forward_one(Model& model, SequenceState& state, std::span<const int32_t> tokens,
                               LogitRows rows = LogitRows::none, int64_t decoder_from = 0);

// Equal bit for bit wherever both have rows, and in the state. The message names the first difference.
testing::AssertionResult same(const Sequence& a, const Sequence& b);
testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b);
testing::AssertionResult same_state(const SequenceState& a, const SequenceState& b);
bool all_finite(const Sequence& sequence);

std::string name_of(const Model& model);  // "avx512 x 2 threads"

}  // namespace deepinfer::props
