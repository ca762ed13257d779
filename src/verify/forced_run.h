// ForcedRun: one pass over the first positions of a case in which every layer gets golden inputs, and a record of how far its
// outputs are from golden ones. The probe behind levels 3 to 7 and 11a.
//
// Threading: one caller. Source: golden/README.md, "How to compare".
#pragma once

#include <array>
#include <map>

#include "verify/case_check.h"
#include "verify/selection_check.h"

namespace deepinfer {

// What is put in place of the engine's own values, where the case has it.
enum class Forced : uint8_t {
  sublayers,  // attn_in and ffn_in
  layers,     // x_out and pre_out (after the layer that made them), engram_out, x_in
  middles,    // as layers, and x_mid
};

class ForcedRun : public StepProbe {
 public:
  // Golden row r is position first + r. Layers outside `compared` are forced, but not compared.
  ForcedRun(const ModelConfig& config, const std::vector<GoldenLayer>& layers, const std::vector<bool>& compared,
            Forced forced, int64_t first = 0)
      : selection(config, layers, compared, first),
        layers_(layers),
        compared_(compared),
        forced_(forced),
        first_(first) {}

  void at(Point point, int layer, Rows<bf16> ours) override;
  void at(Point point, int layer, Rows<float> ours) override;
  void at(Point point, int layer, Rows<int32_t> ours) override;
  void at(Point point, int layer, Rows<int64_t> ours) override;
  void candidates(int layer, int64_t rows, CandidateLists& lists) override;
  Rows<float> wants_scores(int layer, int64_t rows) override;

  LayerErrors errors(Point point) const;       // of rows of bf16
  const Worst& difference(Point point) const;  // of float32
  SelectionCheck selection;
  Share engram_out;                             // equal elements
  int64_t other_experts = 0, other_hashes = 0;  // elements that differ
  bool any_experts = false, any_hashes = false;

 private:
  struct Rules {
    const Golden<bf16>* golden = nullptr;
    bool compare = false, force = false;
  };
  Rules rules(Point point, const GoldenLayer& layer) const;
  const Golden<float>* mix(Point point, const GoldenLayer& layer) const;
  bool engram_given(size_t layer) const;  // the stream before its Engram is golden
  // The part of `rows` rows at this step's position that golden rows cover: [from, to) of the step.
  template <typename T>
  std::pair<int64_t, int64_t> covered(const Golden<T>& golden, int64_t rows) const;

  const std::vector<GoldenLayer>& layers_;
  std::vector<bool> compared_;
  Forced forced_;
  int64_t first_;
  std::map<Point, std::map<int, std::vector<double>>> row_errors_;
  std::map<Point, Worst> differences_;
};

}  // namespace deepinfer
