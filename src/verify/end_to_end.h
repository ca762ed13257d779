// EndToEnd: watches a run from token ids and compares what the case has of it: n-gram hashes (exact), selections and candidate
// blocks (overlap), the size of the stream, and the first layer's attention, which depends on the tokens alone.
//
// Threading: one caller.
#pragma once

#include <map>

#include "verify/case_check.h"

namespace deepinfer {

class EndToEnd : public StepProbe {
 public:
  // Golden topk.L, topk_last.L and engram_hash.L rows belong to `positions`; attn_out.0 rows to `rows`.
  Status load(const CaseCheck& check, const std::vector<int64_t>& positions, const std::vector<int64_t>& rows);
  void report(const CaseCheck& check, const char* level) const;

  void at(Point point, int layer, Rows<bf16> ours) override;
  void at(Point point, int layer, Rows<int32_t> ours) override;
  void at(Point point, int layer, Rows<int64_t> ours) override;
  void candidates(int layer, int64_t rows, CandidateLists& lists) override;

 private:
  struct Layer {
    Golden<int32_t> topk, hash;
    Golden<bf16> attn_out;
    Golden<uint8_t> candidates;
    Golden<float> rms;
    std::vector<double> overlap, candidate_overlap, rms_errors, attn_errors;
  };
  static int64_t find(const std::map<int64_t, int64_t>& rows, int64_t position);

  std::vector<Layer> layers_;
  std::map<int64_t, int64_t> rows_of_topk_, rows_of_streams_;  // by position
  int64_t block_size_ = 1;
  const ModelConfig* config_ = nullptr;
  int64_t other_hashes_ = 0;
  bool any_hashes_ = false;
};

}  // namespace deepinfer
