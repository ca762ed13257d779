#include "verify/end_to_end.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "verify/golden_layers.h"

namespace deepinfer {
namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::map<int64_t, int64_t> rows_by_position(const std::vector<int64_t>& positions) {
  std::map<int64_t, int64_t> rows;
  for (size_t i = 0; i < positions.size(); ++i) rows[positions[i]] = static_cast<int64_t>(i);
  return rows;
}

}  // namespace

int64_t EndToEnd::find(const std::map<int64_t, int64_t>& rows, int64_t position) {
  const auto found = rows.find(position);
  return found == rows.end() ? -1 : found->second;
}

Status EndToEnd::load(const CaseCheck& check, const std::vector<int64_t>& positions, const std::vector<int64_t>& rows) {
  const ModelConfig& c = check.config();
  config_ = &c;
  rows_of_topk_ = rows_by_position(positions);
  rows_of_streams_ = rows_by_position(rows);
  layers_.resize(c.layers.size());
  const auto count = static_cast<int64_t>(positions.size());
  for (size_t l = 0; l < layers_.size(); ++l) {
    Layer& layer = layers_[l];
    const std::string dot = fmt::format(".{}", l);
    DI_ASSIGN_OR_RETURN(layer.topk, check.golden.get<int32_t>("topk" + dot, count, -1));
    DI_ASSIGN_OR_RETURN(layer.hash, check.golden.get<int32_t>("engram_hash" + dot, count,
                                                              (c.engram_max_ngram_size - 1) * c.engram_n_heads));
    DI_ASSIGN_OR_RETURN(layer.candidates, check.golden.get<uint8_t>("candidates" + dot, count, -1));
    if (check.info().length > 0) {
      DI_ASSIGN_OR_RETURN(layer.rms, check.golden.get<float>("rms" + dot, check.info().length, 1));
    }
    if (l > 0) continue;
    DI_ASSIGN_OR_RETURN(layer.attn_out,
                        check.golden.get<bf16>("attn_out.0", static_cast<int64_t>(rows.size()), c.hidden_size));
  }
  return {};
}

void EndToEnd::at(Point point, int layer, Rows<bf16> ours) {
  if (layer < 0) return;
  Layer& golden = layers_[static_cast<size_t>(layer)];
  for (int64_t r = 0; r < ours.rows; ++r) {
    const int64_t position = start + r;
    if (point == Point::attn_out && !golden.attn_out.empty()) {
      const int64_t row = find(rows_of_streams_, position);
      if (row >= 0) golden.attn_errors.push_back(row_error(ours.row(r), golden.attn_out.row(row), ours.cols));
    }
    if (point == Point::x_out && position < golden.rms.rows) {
      double squares = 0;
      for (int64_t i = 0; i < ours.cols; ++i) squares += std::pow(to_float(ours.row(r)[i]), 2);
      const double expected = golden.rms.data[static_cast<size_t>(position)];
      golden.rms_errors.push_back(std::fabs(std::sqrt(squares / static_cast<double>(ours.cols)) / expected - 1));
    }
  }
}

void EndToEnd::at(Point point, int layer, Rows<int32_t> ours) {
  Layer& golden = layers_[static_cast<size_t>(layer)];
  if (point != Point::topk || golden.topk.empty()) return;
  for (int64_t r = 0; r < ours.rows; ++r) {
    const int64_t row = find(rows_of_topk_, start + r);
    if (row < 0) continue;
    const std::set<int32_t> mine(ours.row(r), ours.row(r) + ours.cols);
    int64_t both = 0, theirs = 0;
    for (int64_t i = 0; i < golden.topk.cols; ++i) {
      const int32_t selected = golden.topk.row(row)[i];
      if (selected < 0) continue;
      ++theirs;
      both += mine.count(selected) > 0;
    }
    if (theirs > 0) golden.overlap.push_back(static_cast<double>(both) / static_cast<double>(theirs));
  }
}

void EndToEnd::at(Point point, int layer, Rows<int64_t> ours) {
  const Golden<int32_t>& golden = layers_[static_cast<size_t>(layer)].hash;
  if (point != Point::engram_hash || golden.empty()) return;
  for (int64_t r = 0; r < ours.rows; ++r) {
    const int64_t row = find(rows_of_topk_, start + r);
    if (row < 0) continue;
    any_hashes_ = true;
    for (int64_t i = 0; i < ours.cols; ++i) other_hashes_ += ours.row(r)[i] != golden.row(row)[i];
  }
}

void EndToEnd::candidates(int layer, int64_t rows, CandidateLists& lists) {
  Layer& golden = layers_[static_cast<size_t>(layer)];
  if (golden.candidates.empty()) return;
  const int64_t size = config_->candidate_block_size;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t row = find(rows_of_topk_, start + r), visible = visible_rows(*config_, layer, start + r);
    if (row < 0 || visible > golden.candidates.cols) continue;
    const int32_t* list = lists.blocks + r * lists.capacity;
    const std::set<int32_t> mine(list, list + std::max(lists.counts[r], 0));
    int64_t both = 0, theirs = 0;
    for (int64_t b = 0; b * size < visible; ++b) {
      const uint8_t* mask = golden.candidates.row(row);
      if (std::none_of(mask + b * size, mask + std::min((b + 1) * size, visible), [](uint8_t m) { return m != 0; }))
        continue;
      ++theirs;
      both += lists.counts[r] < 0 || mine.count(static_cast<int32_t>(b)) > 0;
    }
    if (theirs > 0) golden.candidate_overlap.push_back(static_cast<double>(both) / static_cast<double>(theirs));
  }
}

void EndToEnd::report(const CaseCheck& check, const char* level) const {
  if (any_hashes_) check.at_most("7", "other hashes", static_cast<double>(other_hashes_), 0);
  LayerErrors rms, attn;
  for (size_t l = 0; l < layers_.size(); ++l) {
    const Layer& layer = layers_[l];
    // Sources of the encoder half see little noise in models of nano's and odd's size.
    const bool early = check.config().layers[l].compress_ratio == 2 && check.config().head_dim < 256;
    if (!layer.overlap.empty())
      check.at_least(level, fmt::format("topk.{} overlap", l), mean(layer.overlap), early ? 0.95 : 0.8);
    if (!layer.candidate_overlap.empty())
      check.at_least(level, fmt::format("candidates.{} overlap", l), mean(layer.candidate_overlap), 0.8);
    if (!layer.rms_errors.empty()) rms.add(static_cast<int>(l), layer.rms_errors);
    if (!layer.attn_errors.empty()) attn.add(static_cast<int>(l), layer.attn_errors);
  }
  check.at_most(level, "attn_out.0 median", attn.median, 0.003);
  check.at_most(level, "attn_out.0 max", attn.max, 0.02);
  // A size differs by no more than the stream itself, whose limits these are (level 11).
  check.at_most(level, "size of x_out median", rms.median, 0.015);
  check.at_most(level, "size of x_out p90", rms.p90, 0.03);
}

}  // namespace deepinfer
