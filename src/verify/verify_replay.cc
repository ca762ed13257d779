// Level 11: bounded replay. Layers below the split and the split layer's compressed rows for the whole prompt, everything from
// there on for the last K positions only.
#include <algorithm>
#include <cstring>

#include "verify/case_check.h"
#include "verify/forced_run.h"

namespace deepinfer {
namespace {

// The golden replay of a case.
struct Replay {
  int64_t length = 0, from = 0, split = 0;  // the segment is [from, length)
  std::vector<int32_t> tokens;
  std::vector<int64_t> rows;  // of the segment, counted from its start, that tensors hold
  Golden<float> logits, exact_logits, segment_logits;
  Golden<bf16> main_hidden;
  std::vector<GoldenLayer> layers;  // x_out and topk of the rows

  bool whole_segment() const { return static_cast<int64_t>(rows.size()) == length - from; }
};

Result<Replay> load_replay(const CaseCheck& check) {
  const CaseInfo& info = check.info();
  const ModelConfig& c = check.config();
  const GoldenCase& g = check.golden;
  Replay r;
  r.length = info.length;
  const int64_t k = info.k > 0 ? info.k : c.sliding_window + c.max_rollback();
  r.from = std::max<int64_t>(0, r.length - k);
  r.split = check.model.layout().decoder_start;
  if ((info.segment_start >= 0 && info.segment_start != r.from) || (info.split >= 0 && info.split != r.split)) {
    return invalid("{}: a segment from {} and a split at layer {}, the configuration calls for {} and {}", info.file,
                   info.segment_start, info.split, r.from, r.split);
  }
  DI_ASSIGN_OR_RETURN(r.tokens, g.tokens(r.length + info.steps, c.vocab_size));
  DI_ASSIGN_OR_RETURN(r.rows, g.positions("segment_rows", r.length - r.from));
  for (int64_t i = 0; i < r.length - r.from && !g.has("segment_rows"); ++i) r.rows.push_back(i);
  const auto rows = static_cast<int64_t>(r.rows.size());
  DI_ASSIGN_OR_RETURN(r.logits, g.get<float>("logits", info.steps + 1, c.vocab_size));
  DI_ASSIGN_OR_RETURN(r.exact_logits, g.get<float>("exact_logits", info.steps + 1, c.vocab_size));
  DI_ASSIGN_OR_RETURN(r.segment_logits, g.get<float>("segment_logits", rows, c.vocab_size));
  DI_ASSIGN_OR_RETURN(
      r.main_hidden,
      g.get<bf16>("main_hidden", rows, c.hidden_size * static_cast<int64_t>(c.dspark_target_layer_ids.size())));
  std::vector<int64_t> positions = r.rows;
  for (int64_t& p : positions) p += r.from;
  DI_ASSIGN_OR_RETURN(r.layers, load_layers(g, c, positions));
  return r;
}

LogitErrors compare_logits(const std::vector<float>& ours, const Golden<float>& golden,
                           const std::vector<int64_t>& rows) {
  LogitErrors errors;
  for (int64_t i = 0; i < golden.rows; ++i)
    errors.add(ours.data() + rows[static_cast<size_t>(i)] * golden.cols, golden.row(i), golden.cols);
  return errors;
}

// x_out of the replayed layers, rows by their place in the segment.
class SegmentStreams : public StepProbe {
 public:
  explicit SegmentStreams(const Replay& replay) : replay_(replay), errors_(replay.layers.size()) {}

  void at(Point point, int layer, Rows<bf16> ours) override {
    if (point != Point::x_out || layer < replay_.split || start < replay_.from) return;
    const Golden<bf16>& golden = replay_.layers[static_cast<size_t>(layer)].x_out;
    for (size_t i = 0; i < replay_.rows.size() && !golden.empty(); ++i) {
      const int64_t r = replay_.rows[i] + replay_.from - start;
      if (r < 0 || r >= ours.rows) continue;
      errors_[static_cast<size_t>(layer)].push_back(
          row_error(ours.row(r), golden.row(static_cast<int64_t>(i)), ours.cols));
    }
  }

  LayerErrors errors() const {
    LayerErrors all;
    for (size_t l = 0; l < errors_.size(); ++l) {
      if (!errors_[l].empty()) all.add(static_cast<int>(l), errors_[l]);
    }
    return all;
  }

 private:
  const Replay& replay_;
  std::vector<std::vector<double>> errors_;
};

// (b) From token ids: the segment's logits and streams in one run, the prompt's last logits and the decoded ones in another.
Status end_to_end(const CaseCheck& check, const Replay& replay) {
  const std::span<const int32_t> tokens(replay.tokens);
  const auto prompt = tokens.first(static_cast<size_t>(replay.length));
  const int64_t vocab = check.config().vocab_size;
  SegmentStreams streams(replay);
  SequenceState state = check.model.new_state();
  std::vector<float> segment;
  DI_RETURN_IF_ERROR(check.model.feed(state, prompt, {LogitRows::all, &streams, replay.from, &segment}));
  if (!replay.segment_logits.empty()) {
    const LogitErrors errors = compare_logits(segment, replay.segment_logits, replay.rows);
    check.logits("11b", "segment logits ", errors, replay.length);
  }
  check.at_most("11b", "x_out median", streams.errors().median, 0.015);
  check.at_most("11b", "x_out p90", streams.errors().p90, 0.03);

  // The same prompt cut inside of a step, then decoded.
  std::vector<int64_t> rows;
  std::vector<float> logits, exact;
  SequenceState other = check.model.new_state(), plain = check.model.new_state();
  for (int64_t n = replay.length; n <= static_cast<int64_t>(tokens.size()); ++n) {
    const auto upto = tokens.first(static_cast<size_t>(n));
    DI_RETURN_IF_ERROR(check.model.feed(other, upto, {LogitRows::last, nullptr, replay.from, &logits}));
    DI_RETURN_IF_ERROR(check.model.feed(plain, upto, {LogitRows::last, nullptr, 0, &exact}));
    rows.push_back(n - replay.length);
    if (n > replay.length) continue;
    const bool same = other.canonical() == state.canonical() &&
                      std::memcmp(logits.data(), segment.data() + segment.size() - static_cast<size_t>(vocab),
                                  static_cast<size_t>(vocab) * sizeof(float)) == 0;
    check.at_most("11b", "other where the prompt is cut", same ? 0 : 1, 0);
  }
  if (!replay.logits.empty())
    check.logits("11b", "decode logits ", compare_logits(logits, replay.logits, rows),
                 static_cast<int64_t>(tokens.size()));
  if (!replay.exact_logits.empty())
    check.logits("11b", "exact logits ", compare_logits(exact, replay.exact_logits, rows),
                 static_cast<int64_t>(tokens.size()));
  if (replay.from == 0) {
    const bool same =
        logits.size() == exact.size() && std::memcmp(logits.data(), exact.data(), exact.size() * sizeof(float)) == 0;
    check.at_most("11b", "other than own exact path", same ? 0 : 1, 0);
  }
  return {};
}

// The exact prefill case of the same prompt that holds the stream and the mix entering the split layer, for all positions.
Result<GoldenCase> find_prefill(const CaseCheck& check, const Replay& replay) {
  const std::string dot = fmt::format(".{}", replay.split - 1);
  return check.find_case("prefill", [&](const GoldenCase& other) -> Result<bool> {
    if (other.info().length != replay.length || other.has("rows") || !other.has("x_out" + dot) ||
        !other.has("pre_out" + dot))
      return false;
    DI_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, other.tokens(replay.length, check.config().vocab_size));
    return std::equal(tokens.begin(), tokens.end(), replay.tokens.begin());
  });
}

// The probe of (a): golden streams into the split layer and golden selections above it; layers above it are chained.
class Chained : public StepProbe {
 public:
  Chained(const ModelConfig& config, const Replay& replay, const std::vector<GoldenLayer>& exact)
      : streams(replay),
        replay_(replay),
        below_(config, exact, std::vector<bool>(exact.size()), Forced::layers),
        selection_(config, selections_of(replay, exact), std::vector<bool>(exact.size()), replay.from) {}

  void at(Point point, int layer, Rows<bf16> ours) override {
    below_.start = streams.start = start;
    streams.at(point, layer, ours);
    if (layer == replay_.split - 1) below_.at(point, layer, ours);
  }
  void at(Point point, int layer, Rows<float> ours) override {
    below_.start = start;
    if (layer == replay_.split - 1 && point == Point::pre_out) below_.at(point, layer, ours);
  }
  void at(Point point, int layer, Rows<int32_t> ours) override {
    if (point == Point::topk && layer >= replay_.split) selection_.topk(layer, start, ours);
  }
  void candidates(int layer, int64_t rows, CandidateLists& lists) override {
    if (layer >= replay_.split) selection_.candidates(layer, start, rows, lists);
  }
  Rows<float> wants_scores(int layer, int64_t rows) override { return selection_.room(layer, start, rows); }

  SegmentStreams streams;

 private:
  // Selections of the replay, candidate masks of the exact prefill's last rows.
  const std::vector<GoldenLayer>& selections_of(const Replay& replay, const std::vector<GoldenLayer>& exact) {
    forced_.resize(exact.size());
    for (size_t l = 0; l < exact.size(); ++l) {
      forced_[l].topk = replay.layers[l].topk;
      const Golden<uint8_t>& mask = exact[l].candidates;
      if (mask.empty()) continue;
      forced_[l].candidates = {{mask.row(replay.from), mask.row(replay.from) + (mask.rows - replay.from) * mask.cols},
                               mask.rows - replay.from,
                               mask.cols};
    }
    return forced_;
  }

  const Replay& replay_;
  std::vector<GoldenLayer> forced_;
  ForcedRun below_;
  SelectionCheck selection_;
};

// (a) From the exact prefill's stream before the split layer.
Status from_golden_stream(const CaseCheck& check, const Replay& replay) {
  const bool has_streams =
      std::any_of(replay.layers.begin(), replay.layers.end(), [](const GoldenLayer& l) { return !l.x_out.empty(); });
  if (!has_streams || !replay.whole_segment()) return {};
  Result<GoldenCase> found = find_prefill(check, replay);
  if (!found.ok() && found.status().code() == Code::not_found) return {};
  if (!found.ok()) return found.status();
  std::vector<int64_t> positions;
  for (int64_t p = 0; p < replay.length; ++p) positions.push_back(p);
  DI_ASSIGN_OR_RETURN(const std::vector<GoldenLayer> exact, load_layers(*found, check.config(), positions));

  Chained chained(check.config(), replay, exact);
  SequenceState state = check.model.new_state();
  std::vector<float> logits;
  const std::span<const int32_t> prompt(replay.tokens.data(), static_cast<size_t>(replay.length));
  DI_RETURN_IF_ERROR(check.model.feed(state, prompt, {LogitRows::all, &chained, replay.from, &logits}));
  check.at_most("11a", "x_out median", chained.streams.errors().median, 0.001);
  check.at_most("11a", "x_out max", chained.streams.errors().max, 0.01);
  if (!replay.segment_logits.empty()) {
    check.at_most("11a", "segment logits rms", compare_logits(logits, replay.segment_logits, replay.rows).rms(), 0.01);
  }
  CodeErrors rings;
  const StateLayout& layout = check.model.layout();
  for (int64_t l = replay.split; l < layout.rings(); ++l) {
    const std::string name =
        l < layout.layers ? fmt::format("ring.{}", l) : fmt::format("ring.mtp{}", l - layout.layers);
    DI_ASSIGN_OR_RETURN(const Golden<bf16> ring, check.golden.get<bf16>(name, layout.window, layout.head_dim));
    if (!ring.empty()) check.add_ring(rings, state, l, ring, replay.from, replay.length);
  }
  if (rings.share.total > 0) {
    check.at_least("11a", "ring equal", rings.share.value(), 0.998);
    check.at_most("11a", "ring beyond one code", static_cast<double>(rings.beyond), 0);
  }
  return {};
}

}  // namespace

Status verify_replay(const CaseCheck& check) {
  if (check.model.layout().decoder_start < 1)
    return invalid("{}: a replay, but the configuration has no decoder half", check.info().file);
  DI_ASSIGN_OR_RETURN(const Replay replay, load_replay(check));
  DI_RETURN_IF_ERROR(from_golden_stream(check, replay));
  return end_to_end(check, replay);
}

}  // namespace deepinfer
