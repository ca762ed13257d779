// Model: V4.1 in one entry, forward(step). What a row computes depends on that row and its own sequence's state, and on nothing else.
//
//   embedding -> [ engram -> attention -> experts ] x layers -> head        forward.cc reads like that; each stage has a file.
//
// Threading: one step at a time. All scratch is planned at load from the largest step; forward allocates nothing that grows with context.
// Source: spec sections 3 to 10.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/threads.h"
#include "model/step.h"
#include "model/weights.h"

namespace deepinfer {

struct ModelLimits {
  int threads = 0;                // 0: one per core
  std::string instruction_set;    // empty: the best of this machine; else avx512, avx2, portable
  int64_t max_step_tokens = 512;  // rows of the largest step
  int64_t max_logit_rows = 0;     // rows of a step that want logits; 0: max_step_tokens
  int64_t max_runs = 0;           // 0: max_step_tokens
  int64_t max_context = 0;        // positions of a sequence; 0: the model's max_position_embeddings
  bool drafts = false;            // keep draft rings, so that draft() can run
};

struct DraftRun {
  SequenceState* state = nullptr;  // its last position is the main position p
  int32_t token = 0;               // the token of position p + 1
};

// Valid until the next draft of the same model.
struct DraftResult {
  std::vector<int32_t> ids;       // [runs, block + 1]: the token, then the drafts
  std::vector<float> confidence;  // [runs, block], raw scores
  Rows<const float> logits;       // [runs * block, vocab], Markov bias included
};

class Model {
 public:
  // `token_map`: class of each token id for the n-gram hash (spec 8.1), [vocab].
  static Result<std::unique_ptr<Model>> load(std::shared_ptr<const Checkpoint> checkpoint,
                                             std::vector<int32_t> token_map, const ModelLimits& options);
  ~Model();

  const ModelConfig& config() const { return checkpoint_->config(); }
  const ModelLimits& limits() const { return limits_; }
  const std::shared_ptr<const StateLayout>& layout() const { return layout_; }
  const Kernels& kernels() const { return *kernels_; }
  int64_t scratch_bytes() const;

  // Computes the step and moves every state on by its tokens. Refuses, before anything is written: more tokens than max_step_tokens, ids
  // outside the vocabulary, sequences longer than max_context, logit rows outside the replayed suffix, room that cannot be reserved. An
  // error in the middle (a scale that was not scanned at load turns out to be no number) empties the states of the step's runs.
  Result<StepResult> forward(const Step& step);

  // Greedy drafts (spec 9). Reads the draft rings, writes no state.
  Result<DraftResult> draft(std::span<const DraftRun> runs, Probe* probe = nullptr);

  // Writes draft ring rows of consecutive positions from given taps (a part of forward; tests enter here with golden main_hidden).
  Status feed_drafts(SequenceState& state, int64_t first_position, Rows<const bf16> main_hidden);

 private:
  friend class Forward;
  Model() = default;
  Status plan();

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<int32_t> token_map_;
  ModelLimits limits_;
  ModelWeights weights_;
  std::shared_ptr<const StateLayout> layout_;
  const Kernels* kernels_ = nullptr;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<float> window_frequencies_;           // layers without compression and draft stages
  std::vector<float> compressed_frequencies_;       // layers with YaRN
  std::vector<std::vector<bool>> experts_checked_;  // by block: scales seen to be numbers, if not scanned at load
  std::unique_ptr<std::byte[]> memory_;             // arena, then thread scratch
  int64_t arena_bytes_ = 0;
  int64_t thread_scratch_bytes_ = 0;
};

// RoPE frequencies (spec 3): f_j = fl32(1 / fl32(theta^(2j/dim))), blended by YaRN when scaling is given.
std::vector<float> rope_frequencies(double theta, int64_t dim, const RopeScaling* scaling);

}  // namespace deepinfer
