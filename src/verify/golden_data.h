// Golden data of kind "model": index.json, and tensors of a case copied out with their dtype and shape checked.
//
// Nothing here trusts a byte: an error names the file, the tensor, what was found and what is accepted.
// Threading: values. Source: golden/README.md, "Formats and conventions".
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/engram_constants.h"
#include "numerics/formats.h"

namespace deepinfer {

// One entry of index.json's "cases". Numbers that an entry does not have are -1.
struct CaseInfo {
  std::string name, file, kind;                    // kind: prefill, decode, dspark, replay
  int64_t length = -1;                             // prefill, replay: tokens of the prompt
  int64_t prefill = -1;                            // decode, dspark: tokens of the prompt
  int64_t steps = -1;                              // decoded tokens
  int64_t k = -1, segment_start = -1, split = -1;  // replay
};

struct GoldenIndex {
  std::string config_name;  // names the token map's stream (SYNTH.md section 6)
  uint64_t seed = 0;
  std::vector<CaseInfo> cases;
  // "engram": constants by layer, and the class of the padding token.
  std::vector<int> engram_layers;
  std::vector<EngramConstants> engram;
  int64_t engram_pad_class = -1;
  std::map<std::string, std::string> sha256_16;  // of some tensors
};

// A row-major tensor, [rows, cols]: `cols` is the product of the other dimensions.
template <typename T>
struct Golden {
  std::vector<T> data;
  int64_t rows = 0, cols = 0;

  bool empty() const { return rows == 0; }
  const T* row(int64_t r) const { return data.data() + r * cols; }
};

Result<GoldenIndex> read_golden_index(const std::string& dir);

class GoldenCase {
 public:
  static Result<GoldenCase> open(const std::string& dir, const CaseInfo& info);

  const CaseInfo& info() const { return info_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }

  // The tensor, or an empty one if the file has none of that name. `rows`, `cols`: what its shape must come to; -1: any.
  // T: bf16, float, int32_t or uint8_t, stored as BF16, F32, I32, U8.
  template <typename T>
  Result<Golden<T>> get(const std::string& name, int64_t rows, int64_t cols) const;
  // The same of a tensor that must be there.
  template <typename T>
  Result<Golden<T>> need(const std::string& name, int64_t rows, int64_t cols) const;

  // Numbers in strictly ascending order, each in [0, below); empty if the file has none.
  Result<std::vector<int64_t>> positions(const std::string& name, int64_t below) const;
  // "tokens": `count` ids of the vocabulary.
  Result<std::vector<int32_t>> tokens(int64_t count, int64_t vocab) const;

 private:
  Status wrong(const std::string& name, std::string_view found, std::string_view accepted) const;
  Result<const TensorView*> checked(const std::string& name, DType dtype, int64_t rows, int64_t cols) const;

  CaseInfo info_;
  SafetensorsFile file_;
};

}  // namespace deepinfer
