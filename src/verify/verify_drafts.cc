// Level 10: drafts, from golden draft rings and taps (a) and from token ids (b).
#include <algorithm>

#include "verify/case_check.h"

namespace deepinfer {
namespace {

// The golden drafts of a case. Drafts of a block count from 0; ids from 1, after the token that was given.
struct Drafts {
  std::vector<int32_t> tokens;
  Golden<int32_t> ids;          // [drafts, block + 1]
  Golden<float> confidence;     // [drafts, block]
  Golden<float> margin;         // [drafts, block]
  Golden<bf16> main_hidden;     // [drafts, taps * d]
  std::vector<int64_t> rows;    // drafts that logits and streams are given for
  Golden<float> logits;         // [rows, block * vocab]
  std::vector<Golden<bf16>> x;  // by stage, [rows, block * 4 * d]
};

Result<Drafts> load_drafts(const CaseCheck& check) {
  const ModelConfig& c = check.config();
  const int64_t count = check.info().steps + 1, block = c.dspark_block_size;
  const GoldenCase& g = check.golden;
  Drafts d;
  DI_ASSIGN_OR_RETURN(d.tokens, g.tokens(check.info().prefill + count, c.vocab_size));
  DI_ASSIGN_OR_RETURN(d.ids, g.need<int32_t>("output_ids", count, block + 1));
  DI_ASSIGN_OR_RETURN(d.confidence, g.need<float>("confidence", count, block));
  DI_ASSIGN_OR_RETURN(d.margin, g.need<float>("draft_margin", count, block));
  DI_ASSIGN_OR_RETURN(
      d.main_hidden,
      g.get<bf16>("main_hidden", count, c.hidden_size * static_cast<int64_t>(c.dspark_target_layer_ids.size())));
  DI_ASSIGN_OR_RETURN(d.rows, g.positions("draft_rows", count));
  const auto rows = static_cast<int64_t>(d.rows.size());
  DI_ASSIGN_OR_RETURN(d.logits, g.get<float>("draft_logits", rows, block * c.vocab_size));
  d.x.resize(static_cast<size_t>(c.num_nextn_predict_layers));
  for (size_t s = 0; s < d.x.size(); ++s) {
    DI_ASSIGN_OR_RETURN(d.x[s], g.get<bf16>(fmt::format("draft_x.{}", s), rows, block * kHcMult * c.hidden_size));
  }
  for (int64_t i = 0; i < count; ++i) {
    const int32_t given = d.tokens[static_cast<size_t>(check.info().prefill + i)];
    if (d.ids.row(i)[0] != given) {
      return invalid("{}: tensor output_ids: draft {} begins with {}, the sequence goes on with {}", check.info().file,
                     i, d.ids.row(i)[0], given);
    }
  }
  return d;
}

struct DraftLimits {
  const char* level;
  double margin, logits_rms, confidence;
};

// Collects drafts one by one and compares them.
class DraftErrors : public Probe {
 public:
  DraftErrors(const CaseCheck& check, const Drafts& golden, const DraftLimits& limits)
      : check_(check), golden_(golden), limits_(limits) {}

  // Draft number i of the case, from a state that ends at its main position.
  Status draft(SequenceState& state, int64_t i) {
    const auto found = std::lower_bound(golden_.rows.begin(), golden_.rows.end(), i);
    row_ = found != golden_.rows.end() && *found == i ? found - golden_.rows.begin() : -1;
    const DraftRun run{&state, golden_.ids.row(i)[0]};
    DI_ASSIGN_OR_RETURN(const DraftResult ours, check_.model.model().draft({&run, 1}, this));
    const int64_t block = check_.config().dspark_block_size, vocab = check_.config().vocab_size;
    const int32_t* ids = golden_.ids.row(i);
    bool certain = true;  // no margin below the limit so far
    for (int64_t k = 0; k < block; ++k) {
      // Drafts after a first other id stand on other tokens.
      if (ours.ids[static_cast<size_t>(k)] != ids[k]) break;
      const double difference = std::fabs(ours.confidence[static_cast<size_t>(k)] - golden_.confidence.row(i)[k]);
      confidence_.take(difference, fmt::format("draft {} of row {}", k, i));
      if (row_ >= 0 && !golden_.logits.empty())
        logits_.add(ours.logits.row(k), golden_.logits.row(row_) + k * vocab, vocab);
      certain = certain && golden_.margin.row(i)[k] >= limits_.margin;
      if (certain) wrong_ids_ += ours.ids[static_cast<size_t>(k) + 1] != ids[k + 1];
    }
    return {};
  }

  void at(Point point, int stage, Rows<bf16> ours) override {
    if (point != Point::draft_x || row_ < 0 || golden_.x[static_cast<size_t>(stage)].empty()) return;
    const bf16* golden = golden_.x[static_cast<size_t>(stage)].row(row_);
    for (int64_t r = 0; r < ours.rows; ++r)
      x_[stage].push_back(row_error(ours.row(r), golden + r * ours.cols, ours.cols));
  }

  void report() const {
    check_.at_most(limits_.level, "ids before a small margin", static_cast<double>(wrong_ids_), 0);
    if (logits_.rows() > 0) check_.at_most(limits_.level, "draft_logits rms", logits_.rms(), limits_.logits_rms);
    LayerErrors x;
    for (const auto& [stage, errors] : x_) x.add(stage, errors);
    if (x.any()) {
      const std::string stage = x.median.at.substr(x.median.at.find(' '));
      check_.at_most(limits_.level, "draft_x median", x.median.value, 0.02, "stage" + stage);
    }
    check_.at_most(limits_.level, "confidence", confidence_, limits_.confidence);
  }

 private:
  const CaseCheck& check_;
  const Drafts& golden_;
  DraftLimits limits_;
  int64_t row_ = -1, wrong_ids_ = 0;
  LogitErrors logits_;
  Worst confidence_;
  std::map<int, std::vector<double>> x_;
};

// (a) The rings that a decode case of the same prompt left, then the golden taps one after the other.
Status from_golden_rings(const CaseCheck& check, const Drafts& golden) {
  const StateLayout& layout = check.model.layout();
  const int64_t prompt = check.info().prefill, count = check.info().steps + 1;
  const auto stages = layout.draft_stages;
  Result<GoldenCase> rings = check.find_case("decode", [&](const GoldenCase& other) -> Result<bool> {
    for (int64_t s = 0; s < stages; ++s) {
      if (!other.has(fmt::format("ring.mtp{}", s))) return false;
    }
    if (other.info().prefill != prompt) return false;
    DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens,
                        other.tokens(prompt + other.info().steps, check.config().vocab_size));
    return std::equal(tokens.begin(), tokens.begin() + prompt, golden.tokens.begin());
  });
  if (!rings.ok() && rings.status().code() == Code::not_found) return {};
  if (!rings.ok()) return rings.status();

  SequenceState state = check.model.new_state();
  for (int64_t s = 0; s < stages; ++s) {
    DI_ASSIGN_OR_RETURN(const Golden<bf16> ring,
                        rings->need<bf16>(fmt::format("ring.mtp{}", s), layout.window, layout.head_dim));
    for (int64_t p = std::max<int64_t>(0, prompt - layout.window); p < prompt; ++p) {
      encode_window_row(ring.row(p % layout.window), layout.head_dim,
                        state.ring(layout.layers + s) + p % layout.ring_rows * layout.window_row_bytes);
    }
  }
  DraftErrors errors(check, golden, {"10a", 0.05, 0.01, 2e-3});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = prompt - 1 + i, width = golden.main_hidden.cols;
    DI_RETURN_IF_ERROR(check.model.feed_drafts(state, position, {golden.main_hidden.row(i), 1, width, width}));
    state.advance(position + 1);
    DI_RETURN_IF_ERROR(errors.draft(state, i));
  }
  errors.report();
  CodeErrors codes;
  for (int64_t s = 0; s < stages; ++s) {
    DI_ASSIGN_OR_RETURN(const Golden<bf16> ring,
                        check.golden.get<bf16>(fmt::format("ring.mtp{}", s), layout.window, layout.head_dim));
    if (!ring.empty()) check.add_ring(codes, state, layout.layers + s, ring, 0, prompt + count - 1);
  }
  if (codes.share.total > 0) check.at_least("10a", "ring.mtp equal", codes.share.value(), 0.998);
  return {};
}

// (b) The prompt, then token by token.
Status end_to_end(const CaseCheck& check, const Drafts& golden) {
  SequenceState state = check.model.new_state();
  DraftErrors errors(check, golden, {"10b", 0.3, 0.12, 0.02});
  const std::span<const int32_t> tokens(golden.tokens);
  for (int64_t i = 0; i <= check.info().steps; ++i) {
    const auto length = static_cast<size_t>(check.info().prefill + i);
    DI_RETURN_IF_ERROR(check.model.feed(state, tokens.first(length), {}));
    DI_RETURN_IF_ERROR(errors.draft(state, i));
  }
  errors.report();
  return {};
}

}  // namespace

Status verify_drafts(const CaseCheck& check) {
  if (check.model.layout().draft_stages == 0)
    return invalid("{}: a case with drafts, but the configuration has no draft stage", check.info().file);
  DI_ASSIGN_OR_RETURN(const Drafts golden, load_drafts(check));
  if (!golden.main_hidden.empty()) DI_RETURN_IF_ERROR(from_golden_rings(check, golden));
  return end_to_end(check, golden);
}

}  // namespace deepinfer
