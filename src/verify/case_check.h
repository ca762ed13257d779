// What every level of kind "model" works with: a case, the model of its configuration, the other cases of its directory,
// and rows for the reporter.
#pragma once

#include <functional>
#include <string>

#include "verify/compare.h"
#include "verify/golden_data.h"
#include "verify/golden_model.h"
#include "verify/report.h"

namespace deepinfer {

// The name of a case's configuration file: config_cNN.json for cases named *_cNN, else config.json.
std::string config_file_of(const std::string& case_name);

struct CaseCheck {
  GoldenModel& model;
  const GoldenCase& golden;
  const GoldenIndex& index;
  std::string dir;
  Reporter& reporter;

  const ModelConfig& config() const { return model.config(); }
  const CaseInfo& info() const { return golden.info(); }

  void at_most(const char* level, const std::string& quantity, double value, double limit,
               const std::string& at = {}) const;
  void at_least(const char* level, const std::string& quantity, double value, double limit) const;
  void at_most(const char* level, const std::string& quantity, const Worst& worst, double limit) const {
    if (worst.any) at_most(level, quantity, worst.value, limit, worst.at);
  }
  // Level 8's limits, for logits of a sequence of `tokens` tokens.
  void logits(const char* level, const std::string& prefix, const LogitErrors& errors, int64_t tokens) const;

  // Another case of the directory: of this kind and configuration, accepted by `fits`; not_found if there is none.
  Result<GoldenCase> find_case(std::string_view kind, const std::function<Result<bool>(const GoldenCase&)>& fits) const;

  // Rows [rows] of kind `kind` that a state holds, against golden ones.
  void add_ring(CodeErrors& errors, const SequenceState& state, int64_t ring, const Golden<bf16>& golden, int64_t from,
                int64_t length) const;
};

// Levels 3 to 7: prompts with golden inputs of sublayers or layers, for all of their positions or the first ones.
Status verify_layers(const CaseCheck& check);
// Levels 8 and 9, end to end.
Status verify_prefill(const CaseCheck& check);
Status verify_decode(const CaseCheck& check);
// Level 10: drafts.
Status verify_drafts(const CaseCheck& check);
// Level 11: bounded replay.
Status verify_replay(const CaseCheck& check);

}  // namespace deepinfer
