// Levels 8 and 9: logits from token ids alone, in one prompt and token by token.
#include <cstring>

#include "verify/case_check.h"
#include "verify/end_to_end.h"

namespace deepinfer {
namespace {

std::vector<int64_t> range(int64_t from, int64_t to) {
  std::vector<int64_t> list;
  for (int64_t p = from; p < to; ++p) list.push_back(p);
  return list;
}

}  // namespace

Status verify_prefill(const CaseCheck& check) {
  const int64_t n = check.info().length, vocab = check.config().vocab_size;
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, check.golden.tokens(n, vocab));
  DI_ASSIGN_OR_RETURN(const Golden<float> golden, check.golden.get<float>("logits", -1, vocab));
  std::vector<int64_t> rows = range(0, n);
  if (check.golden.has("rows")) {
    DI_ASSIGN_OR_RETURN(rows, check.golden.positions("rows", n));
  }
  const std::vector<int64_t> logit_rows = golden.rows == n ? range(0, n) : rows;
  if (!golden.empty() && golden.rows != static_cast<int64_t>(logit_rows.size())) {
    return invalid("{}: tensor logits: {} rows, {} or {} are expected", check.info().file, golden.rows, n, rows.size());
  }
  EndToEnd watch;
  DI_RETURN_IF_ERROR(watch.load(check, rows, rows));
  SequenceState state = check.model.new_state();
  std::vector<float> logits;
  DI_RETURN_IF_ERROR(check.model.feed(state, tokens, {LogitRows::all, &watch, 0, &logits}));
  LogitErrors errors;
  for (int64_t r = 0; r < golden.rows; ++r)
    errors.add(logits.data() + logit_rows[static_cast<size_t>(r)] * vocab, golden.row(r), vocab);
  if (errors.rows() > 0) check.logits("8", "logits ", errors, n);
  watch.report(check, "8");
  return {};
}

Status verify_decode(const CaseCheck& check) {
  const int64_t prompt = check.info().prefill, steps = check.info().steps, total = prompt + steps;
  const int64_t vocab = check.config().vocab_size;
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, check.golden.tokens(total, vocab));
  DI_ASSIGN_OR_RETURN(const Golden<float> golden, check.golden.need<float>("logits", steps + 1, vocab));
  DI_ASSIGN_OR_RETURN(const std::vector<int64_t> rows, check.golden.positions("rows", total));
  EndToEnd watch;
  DI_RETURN_IF_ERROR(watch.load(check, range(prompt, total), rows));

  SequenceState state = check.model.new_state();
  const std::span<const int32_t> all(tokens);
  std::vector<float> logits;
  DI_RETURN_IF_ERROR(
      check.model.feed(state, all.first(static_cast<size_t>(prompt)), {LogitRows::last, nullptr, 0, &logits}));
  for (int64_t n = prompt + 1; n <= total; ++n)
    DI_RETURN_IF_ERROR(
        check.model.feed(state, all.first(static_cast<size_t>(n)), {LogitRows::last, &watch, 0, &logits}));
  LogitErrors errors;
  for (int64_t r = 0; r <= steps; ++r) errors.add(logits.data() + r * vocab, golden.row(r), vocab);
  check.logits("9", "logits ", errors, total);
  watch.report(check, "9");

  SequenceState whole = check.model.new_state();
  std::vector<float> prefill;
  DI_RETURN_IF_ERROR(check.model.feed(whole, tokens, {LogitRows::all, nullptr, 0, &prefill}));
  const float* same = prefill.data() + (prompt - 1) * vocab;
  int64_t differ = 0;
  for (int64_t r = 0; r <= steps; ++r)
    differ += std::memcmp(logits.data() + r * vocab, same + r * vocab, static_cast<size_t>(vocab) * sizeof(float)) != 0;
  check.at_most("9", "rows other than own prefill", static_cast<double>(differ), 0);
  check.at_most("9", "state other than own prefill", state.canonical() == whole.canonical() ? 0 : 1, 0);
  return {};
}

}  // namespace deepinfer
