// Weights for golden data: the checkpoint that a directory ships, or one made by the rule of SYNTH.md in a temporary directory;
// and level 1, the generator against what the directory says of its weights.
//
// Threading: one caller. Errors: files that cannot be read or written, configurations too large to make weights for.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "verify/golden_data.h"
#include "verify/report.h"

namespace deepinfer {

class GoldenWeights {
 public:
  // `config_file`: config.json or config_cNN.json of the directory (that of checkpoint/ if it has none of its own).
  static Result<GoldenWeights> make(const std::string& dir, const GoldenIndex& index, const std::string& config_file,
                                    int threads);
  GoldenWeights(GoldenWeights&& other) noexcept;
  GoldenWeights& operator=(GoldenWeights&& other) noexcept;
  ~GoldenWeights();  // removes what was made

  const std::shared_ptr<const Checkpoint>& checkpoint() const { return checkpoint_; }
  const std::vector<int32_t>& token_map() const { return token_map_; }
  bool shipped() const { return temporary_.empty(); }

  // Level 1 and the constants of the n-gram hash (level 7), as rows of the case "weights".
  Status verify(const std::string& dir, const GoldenIndex& index, Reporter& reporter) const;

 private:
  GoldenWeights() = default;

  std::shared_ptr<const Checkpoint> checkpoint_;
  std::vector<int32_t> token_map_;
  std::string temporary_;
};

// The name of the case that level 1 reports under.
inline constexpr const char* kWeightsCase = "weights";

}  // namespace deepinfer
