// SelectionCheck: compares an indexer's scores, candidate blocks and selection with golden ones, ties allowed as
// golden/README.md ("Ties") writes them, and then puts the golden ones in their place.
//
// A probe hands over what it is given, in the order scores, candidates, selection. Threading: one caller.
#pragma once

#include <map>

#include "backend/ops/index_select.h"
#include "verify/compare.h"
#include "verify/golden_layers.h"

namespace deepinfer {

class SelectionCheck {
 public:
  // Golden row r is position first + r. Only layers of `compared` are compared. All outlive this.
  SelectionCheck(const ModelConfig& config, const std::vector<GoldenLayer>& layers, const std::vector<bool>& compared,
                 int64_t first)
      : config_(config), layers_(layers), compared_(compared), first_(first) {}

  // Room for the scores of a step's rows at positions start onwards.
  Rows<float> room(int layer, int64_t start, int64_t rows);
  void candidates(int layer, int64_t start, int64_t rows, CandidateLists& lists);
  void topk(int layer, int64_t start, Rows<int32_t> selected);

  Worst score_steps;  // of bf16
  Worst topk_wrong;   // queries of a layer that select otherwise
  Worst candidates_wrong;
  bool too_many_candidates = false;  // golden masks that keep more blocks than the configuration allows

 private:
  int64_t golden_row(const GoldenLayer& layer, int64_t position) const;
  // The golden score of a row if the case has it, else our own.
  float score(const GoldenLayer& layer, int64_t position, const float* own, int64_t row) const;
  // A score that decides a tie: exactly `last`, or a step of bf16 beside it where our own score stands in for the golden one.
  bool ties(const GoldenLayer& layer, float score, float last) const;
  bool same_selection(int layer, int64_t position, const int32_t* ours, int64_t count, const float* own) const;
  bool same_blocks(int layer, int64_t position, const std::vector<bool>& ours, const std::vector<bool>& golden,
                   const float* own) const;

  const ModelConfig& config_;
  const std::vector<GoldenLayer>& layers_;
  const std::vector<bool> compared_;
  int64_t first_;
  std::vector<float> scores_;  // of the layer at hand
  int64_t columns_ = 0;
  std::map<int, int64_t> wrong_rows_, wrong_masks_;
};

}  // namespace deepinfer
