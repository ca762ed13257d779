#include "verify/case_check.h"

#include <algorithm>

namespace deepinfer {
namespace {

// The golden README names its three models; another one is told by its shape.
bool is_wide(const CaseCheck& check) { return check.config().head_dim >= 256; }

// Prompts so short that every rounding point shows (odd's 17th token has a tie).
int64_t exact_tokens(const CaseCheck& check) {
  if (is_wide(check)) return 0;
  return check.index.config_name.starts_with("nano") ? 17 : 16;
}

}  // namespace

std::string config_file_of(const std::string& case_name) {
  const size_t mark = case_name.rfind("_c");
  if (mark == case_name.npos || mark + 2 == case_name.size()) return "config.json";
  const std::string digits = case_name.substr(mark + 2);
  if (digits.find_first_not_of("0123456789") != digits.npos) return "config.json";
  return "config_c" + digits + ".json";
}

void CaseCheck::at_most(const char* level, const std::string& quantity, double value, double limit,
                        const std::string& at) const {
  reporter.row({info().name, level, quantity, value, limit, value <= limit, at});
}

void CaseCheck::at_least(const char* level, const std::string& quantity, double value, double limit) const {
  reporter.row({info().name, level, quantity, value, limit, value >= limit});
}

void CaseCheck::logits(const char* level, const std::string& prefix, const LogitErrors& errors, int64_t tokens) const {
  const double rms = tokens <= exact_tokens(*this) ? 0.01 : is_wide(*this) ? 0.05 : 0.08;
  at_most(level, prefix + "rms", errors.rms(), rms);
  at_most(level, prefix + "KL mean", errors.kl_mean(), 0.002);
  at_most(level, prefix + "KL max", errors.kl_max(), 0.02);
  at_most(level, prefix + "margin of a lost argmax", errors.lost_margin(), 0.3);
  if (errors.rows() >= 50) at_least(level, prefix + "argmax equal", errors.argmax_share(), 0.95);
}

Result<GoldenCase> CaseCheck::find_case(std::string_view kind,
                                        const std::function<Result<bool>(const GoldenCase&)>& fits) const {
  for (const CaseInfo& other : index.cases) {
    if (other.kind != kind || config_file_of(other.name) != config_file_of(info().name)) continue;
    DI_ASSIGN_OR_RETURN(GoldenCase candidate, GoldenCase::open(dir, other));
    DI_ASSIGN_OR_RETURN(const bool fitting, fits(candidate));
    if (fitting) return candidate;
  }
  return error(Code::not_found, "no case of kind {} fits {}", kind, info().name);
}

void CaseCheck::add_ring(CodeErrors& errors, const SequenceState& state, int64_t ring, const Golden<bf16>& golden,
                         int64_t from, int64_t length) const {
  const StateLayout& layout = model.layout();
  for (int64_t p = std::max(from, length - layout.window); p < length; ++p) {
    errors.add_row(StoredRow::window, state.ring(ring) + p % layout.ring_rows * layout.window_row_bytes,
                   golden.row(p % layout.window), layout.head_dim);
  }
}

}  // namespace deepinfer
