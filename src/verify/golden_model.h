// GoldenModel: a model loaded for golden data, and the one way in which every level runs it: token ids from where a state
// stands, in steps of bounded size, with logits and taps collected and a probe told where each step begins.
//
// Threading: one caller. Errors: those of Model::forward.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/model.h"

namespace deepinfer {

// A probe that knows the position of its rows.
class StepProbe : public Probe {
 public:
  int64_t start = 0;  // position of the first row of the step
};

struct Feed {
  LogitRows logits = LogitRows::none;
  StepProbe* probe = nullptr;
  // Bounded replay (spec 10). With logits of all rows the prompt is cut there into two steps, otherwise inside of one.
  int64_t decoder_from = 0;
  std::vector<float>* out_logits = nullptr;      // rows are appended
  std::vector<bf16>* out_main_hidden = nullptr;  // rows that the decoder ran are appended
};

class GoldenModel {
 public:
  struct Limits {
    std::string instruction_set;
    int threads = 0;
    int64_t step_tokens = 512;
    int64_t longest = 1;  // tokens of the longest sequence
  };
  static Result<std::unique_ptr<GoldenModel>> load(std::shared_ptr<const Checkpoint> checkpoint,
                                                   std::vector<int32_t> token_map, const Limits& limits);

  Model& model() { return *model_; }
  const ModelConfig& config() const { return model_->config(); }
  const StateLayout& layout() const { return *model_->layout(); }
  SequenceState new_state() { return SequenceState(model_->layout(), &*pool_); }

  // Runs tokens[state.length() ..) of a sequence that begins with tokens[0].
  Status feed(SequenceState& state, std::span<const int32_t> tokens, const Feed& feed);
  // Draft rings from given taps of positions first_position onwards.
  Status feed_drafts(SequenceState& state, int64_t first_position, Rows<const bf16> main_hidden);

 private:
  GoldenModel() = default;

  std::unique_ptr<Model> model_;
  std::optional<PagePool> pool_;
};

}  // namespace deepinfer
