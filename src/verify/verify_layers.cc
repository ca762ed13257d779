// Levels 3 to 7: golden inputs into one sublayer or one layer at a time, all layers in one forward each.
#include <algorithm>

#include "verify/case_check.h"
#include "verify/forced_run.h"

namespace deepinfer {
namespace {

// The first positions of a case's sequence that its ".L" tensors hold: all, or the leading ones of "rows".
struct Prefix {
  std::vector<int64_t> positions;  // of all tensor rows
  int64_t leading = 0;             // positions 0 .. leading - 1 are rows 0 .. leading - 1
};

Result<Prefix> prefix_of(const CaseCheck& check) {
  Prefix prefix;
  if (check.golden.has("rows")) {
    DI_ASSIGN_OR_RETURN(prefix.positions, check.golden.positions("rows", check.info().length));
  } else {
    for (int64_t p = 0; p < check.info().length; ++p) prefix.positions.push_back(p);
  }
  for (const int64_t p : prefix.positions) prefix.leading += p == prefix.leading;
  return prefix;
}

// Sums up which tensors of the state's kinds agree; one share for each kind over all compared layers.
class StateCheck {
 public:
  StateCheck(const CaseCheck& check, const SequenceState& state, int64_t length, const std::vector<bool>& compared)
      : check_(check), state_(state), length_(length), compared_(compared) {}

  Status run(const std::string& suffix) {
    if (length_ == check_.info().length) DI_RETURN_IF_ERROR(rings());
    for (size_t s = 0; s < check_.model.layout().sources.size(); ++s) DI_RETURN_IF_ERROR(source(static_cast<int>(s)));
    const std::pair<const char*, const CodeErrors*> kinds[] = {
        {"ring", &ring_}, {"compress_kv", &compressed_}, {"index_k", &keys_}};
    for (const auto& [name, errors] : kinds) {
      if (errors->share.total == 0) continue;
      check_.at_least("5", fmt::format("{} equal{}", name, suffix), errors->share.value(), 0.998);
      check_.at_most("5", fmt::format("{} beyond one code{}", name, suffix), static_cast<double>(errors->beyond), 0);
    }
    check_.at_most("5", "carry" + suffix, carry_, 1e-5);
    return {};
  }

 private:
  Status rings() {
    const StateLayout& layout = check_.model.layout();
    for (int64_t l = 0; l < layout.layers; ++l) {
      if (!compared_[static_cast<size_t>(l)]) continue;
      DI_ASSIGN_OR_RETURN(const Golden<bf16> golden,
                          check_.golden.get<bf16>(fmt::format("ring.{}", l), layout.window, layout.head_dim));
      if (!golden.empty()) check_.add_ring(ring_, state_, l, golden, 0, length_);
    }
    return {};
  }

  // The rows of a source that `length_` tokens have made; the case holds all of them or those of "NAME.L.rows".
  Status stored(const char* name, int source, StoredRow kind, int64_t d, CodeErrors& errors) {
    const SourceLayout& layout = check_.model.layout().sources[static_cast<size_t>(source)];
    const std::string tensor = fmt::format("{}.{}", name, layout.layer);
    if (!check_.golden.has(tensor)) return {};
    const int64_t total = check_.info().length / layout.ratio;
    std::vector<int64_t> rows;
    if (check_.golden.has(tensor + ".rows")) {
      DI_ASSIGN_OR_RETURN(rows, check_.golden.positions(tensor + ".rows", total));
    } else {
      for (int64_t r = 0; r < total; ++r) rows.push_back(r);
    }
    DI_ASSIGN_OR_RETURN(const Golden<bf16> golden,
                        check_.golden.get<bf16>(tensor, static_cast<int64_t>(rows.size()), d));
    const PagedRows pages = state_.rows(source);
    for (size_t i = 0; i < rows.size() && rows[i] < length_ / layout.ratio; ++i) {
      const bool keys = kind == StoredRow::index_key;
      errors.add_row(kind, keys ? pages.key(rows[i]) : pages.kv(rows[i]), golden.row(static_cast<int64_t>(i)), d);
    }
    return {};
  }

  Status source(int s) {
    const StateLayout& layout = check_.model.layout();
    const SourceLayout& source = layout.sources[static_cast<size_t>(s)];
    if (!compared_[static_cast<size_t>(source.layer)]) return {};
    DI_RETURN_IF_ERROR(stored("compress_kv", s, StoredRow::compressed, layout.head_dim, compressed_));
    DI_RETURN_IF_ERROR(stored("index_k", s, StoredRow::index_key, check_.config().index_head_dim, keys_));
    const int64_t open = length_ % source.ratio;
    if (open == 0 || length_ != check_.info().length) return {};
    const float* carry = const_cast<SequenceState&>(state_).carry(s, length_ - 1);
    for (const char* name : {"carry_kv", "carry_score"}) {
      DI_ASSIGN_OR_RETURN(const Golden<float> golden,
                          check_.golden.get<float>(fmt::format("{}.{}", name, source.layer), open, layout.head_dim));
      if (!golden.empty())
        carry_.take(max_difference(carry, golden.row(0), layout.head_dim), fmt::format("layer {}", source.layer));
      carry += layout.head_dim;
    }
    return {};
  }

  const CaseCheck& check_;
  const SequenceState& state_;
  int64_t length_;
  const std::vector<bool>& compared_;
  CodeErrors ring_, compressed_, keys_;
  Worst carry_;
};

void report_selection(const CaseCheck& check, const SelectionCheck& selection, const std::string& suffix) {
  check.at_most("4", "topk other than by ties" + suffix, selection.topk_wrong, 0);
  check.at_most("4", "candidates other than by ties" + suffix, selection.candidates_wrong, 0);
  if (selection.too_many_candidates) check.at_most("4", "golden candidates within limits" + suffix, 1, 0);
  check.at_most("4", "index_score bf16 steps" + suffix, selection.score_steps, 1);
}

void report_spread(const CaseCheck& check, const char* level, const std::string& name, const LayerErrors& errors,
                   double median, double max) {
  check.at_most(level, name + " median", errors.median, median);
  check.at_most(level, name + " max", errors.max, max);
}

// Levels 3, 4 and 5 from golden attn_in and ffn_in.
Status sublayers(const CaseCheck& check, std::span<const int32_t> tokens, const std::vector<GoldenLayer>& layers) {
  const std::vector<bool> compared = layers_with_attn_in(layers, check.config());
  ForcedRun run(check.config(), layers, compared, Forced::sublayers);
  SequenceState state = check.model.new_state();
  DI_RETURN_IF_ERROR(check.model.feed(state, tokens, {LogitRows::none, &run}));
  report_spread(check, "3", "attn_out", run.errors(Point::attn_out), 0.003, 0.02);
  check.at_most("3", "ffn_out median", run.errors(Point::ffn_out).median, 0.002);
  check.at_most("3", "ffn_out p90", run.errors(Point::ffn_out).p90, 0.01);
  if (run.any_experts) check.at_most("3", "other experts", static_cast<double>(run.other_experts), 0);
  check.at_most("3", "gate_w", run.difference(Point::gate_w), 2e-6);
  report_selection(check, run.selection, "");
  return StateCheck(check, state, static_cast<int64_t>(tokens.size()), compared).run("");
}

// Level 6's mixes from one run; `loose`: those after attention see its noise.
void report_mixes(const CaseCheck& check, const ForcedRun& run, bool loose) {
  const std::string suffix = loose ? "" : " given x_mid";
  if (loose) {
    Worst attn;
    for (const Point p : {Point::hc_attn_pre, Point::hc_attn_post, Point::hc_attn_comb}) {
      if (run.difference(p).any) attn.take(run.difference(p).value, run.difference(p).at);
    }
    check.at_most("6", "hc_attn_*", attn, 1e-5);
  }
  check.at_most("6", "hc_ffn_pre" + suffix, run.difference(Point::hc_ffn_pre), loose ? 5e-3 : 1e-5);
  check.at_most("6", "hc_ffn_post" + suffix, run.difference(Point::hc_ffn_post), loose ? 1.5e-2 : 1e-5);
  check.at_most("6", "hc_ffn_comb" + suffix, run.difference(Point::hc_ffn_comb), loose ? 1.5e-2 : 1e-5);
  check.at_most("6", "pre_out" + suffix, run.difference(Point::pre_out), loose ? 5e-3 : 1e-5);
}

// What follows from the stream alone: taps, and the head's logits if the last layer's stream is golden.
Status report_outputs(const CaseCheck& check, const std::vector<GoldenLayer>& layers, const std::vector<float>& logits,
                      const std::vector<bf16>& taps, int64_t count) {
  const ModelConfig& c = check.config();
  const bool all_rows = count == check.info().length;
  const int64_t width = c.hidden_size * static_cast<int64_t>(c.dspark_target_layer_ids.size());
  bool taps_given = width > 0 && all_rows;
  for (const int tap : c.dspark_target_layer_ids) {
    const auto l = static_cast<size_t>(tap);
    taps_given = taps_given && (!layers[l].x_in.empty() || !layers[l].engram_out.empty() ||
                                (c.layers[l].engram < 0 && (l == 0 || !layers[l - 1].x_out.empty())));
  }
  if (taps_given && check.golden.has("main_hidden")) {
    DI_ASSIGN_OR_RETURN(const Golden<bf16> golden, check.golden.get<bf16>("main_hidden", count, width));
    Share share;
    for (size_t i = 0; i < golden.data.size(); ++i) share.add(to_float(taps[i]) == to_float(golden.data[i]));
    check.at_least("6", "main_hidden equal", share.value(), 0.999);
  }
  if (all_rows && !layers.back().x_out.empty() && !layers.back().pre_out.empty() && check.golden.has("logits")) {
    DI_ASSIGN_OR_RETURN(const Golden<float> golden, check.golden.get<float>("logits", count, c.vocab_size));
    LogitErrors errors;
    for (int64_t r = 0; r < count; ++r) errors.add(logits.data() + r * c.vocab_size, golden.row(r), c.vocab_size);
    check.at_most("6", "logits rms given the last x_out", errors.rms(), 0.01);
  }
  return {};
}

// Levels 6 and 7 from golden streams and mixes; 4 and 5 too, and attn_out, where the case has no attn_in.
Status streams(const CaseCheck& check, std::span<const int32_t> tokens, const std::vector<GoldenLayer>& layers) {
  const std::vector<bool> compared = layers_with_stream(layers, check.config());
  ForcedRun run(check.config(), layers, compared, Forced::layers);
  SequenceState state = check.model.new_state();
  std::vector<float> logits;
  std::vector<bf16> taps;
  DI_RETURN_IF_ERROR(check.model.feed(state, tokens, {LogitRows::all, &run, 0, &logits, &taps}));
  report_spread(check, "6", "x_out", run.errors(Point::x_out), 0.005, 0.03);
  report_spread(check, "6", "x_mid", run.errors(Point::x_mid), 0.005, 0.03);
  // The seams alone: a wrong mix into the experts hardly shows in x_out, where their output is small.
  report_spread(check, "6", "attn_in", run.errors(Point::attn_in), 0.005, 0.03);
  report_spread(check, "6", "ffn_in", run.errors(Point::ffn_in), 0.005, 0.03);
  report_mixes(check, run, true);
  DI_RETURN_IF_ERROR(report_outputs(check, layers, logits, taps, static_cast<int64_t>(tokens.size())));
  check.at_most("7", "engram_gate", run.difference(Point::engram_gate), 1e-3);
  if (run.engram_out.total > 0) check.at_least("7", "engram_out equal", run.engram_out.value(), 0.999);
  const bool has_inputs =
      std::any_of(layers.begin(), layers.end(), [](const GoldenLayer& l) { return !l.attn_in.empty(); });
  if (!has_inputs) {
    report_spread(check, "3", "attn_out given x_in", run.errors(Point::attn_out), 0.003, 0.02);
    report_selection(check, run.selection, " given x_in");
  }
  DI_RETURN_IF_ERROR(StateCheck(check, state, static_cast<int64_t>(tokens.size()), compared).run(" given x_in"));

  if (std::all_of(layers.begin(), layers.end(), [](const GoldenLayer& l) { return l.x_mid.empty(); })) return {};
  ForcedRun middle(check.config(), layers, compared, Forced::middles);
  SequenceState other = check.model.new_state();
  DI_RETURN_IF_ERROR(check.model.feed(other, tokens, {LogitRows::none, &middle}));
  report_mixes(check, middle, false);
  return {};
}

// Level 5 of the draft stages: their rings from golden taps.
Status draft_rings(const CaseCheck& check) {
  const StateLayout& layout = check.model.layout();
  const ModelConfig& c = check.config();
  const int64_t width = c.hidden_size * static_cast<int64_t>(c.dspark_target_layer_ids.size());
  if (layout.draft_stages == 0 || !check.golden.has("ring.mtp0")) return {};
  DI_ASSIGN_OR_RETURN(const Golden<bf16> taps, check.golden.get<bf16>("main_hidden", -1, width));
  if (taps.rows != check.info().length) return {};  // a part of the positions does not fill a ring
  SequenceState state = check.model.new_state();
  DI_RETURN_IF_ERROR(check.model.feed_drafts(state, 0, {taps.data.data(), taps.rows, width, width}));
  CodeErrors errors;
  for (int64_t s = 0; s < layout.draft_stages; ++s) {
    DI_ASSIGN_OR_RETURN(const Golden<bf16> ring,
                        check.golden.need<bf16>(fmt::format("ring.mtp{}", s), layout.window, layout.head_dim));
    check.add_ring(errors, state, layout.layers + s, ring, 0, check.info().length);
  }
  check.at_least("5", "ring.mtp equal", errors.share.value(), 0.998);
  check.at_most("5", "ring.mtp beyond one code", static_cast<double>(errors.beyond), 0);
  return {};
}

}  // namespace

Status verify_layers(const CaseCheck& check) {
  const ModelConfig& config = check.config();
  // First, because it holds the index's length to the file.
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, check.golden.tokens(check.info().length, config.vocab_size));
  DI_ASSIGN_OR_RETURN(const Prefix prefix, prefix_of(check));
  DI_ASSIGN_OR_RETURN(const std::vector<GoldenLayer> layers, load_layers(check.golden, config, prefix.positions));
  const std::span<const int32_t> leading(tokens.data(), static_cast<size_t>(prefix.leading));
  if (!leading.empty()) {
    const auto any = [](const std::vector<bool>& ready) {
      return std::find(ready.begin(), ready.end(), true) != ready.end();
    };
    const bool inputs = any(layers_with_attn_in(layers, config));
    const bool stream =
        std::any_of(layers.begin(), layers.end(), [](const GoldenLayer& l) { return !l.x_out.empty(); });
    if (inputs) DI_RETURN_IF_ERROR(sublayers(check, leading, layers));
    if (stream) DI_RETURN_IF_ERROR(streams(check, leading, layers));
  }
  return draft_rings(check);
}

}  // namespace deepinfer
