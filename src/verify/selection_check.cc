#include "verify/selection_check.h"

#include <algorithm>
#include <limits>

namespace deepinfer {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::string layer_text(int layer) { return fmt::format("layer {}", layer); }

}  // namespace

int64_t SelectionCheck::golden_row(const GoldenLayer& layer, int64_t position) const {
  const int64_t row = position - first_;
  return row >= 0 && row < layer.topk.rows ? row : -1;
}

float SelectionCheck::score(const GoldenLayer& layer, int64_t position, const float* own, int64_t row) const {
  if (layer.index_score.empty()) return own[row];
  return to_float(layer.index_score.row(position - first_)[row]);
}

bool SelectionCheck::ties(const GoldenLayer& layer, float score, float last) const {
  return bf16_steps(score, to_bf16(last)) <= (layer.index_score.empty() ? 1 : 0);
}

Rows<float> SelectionCheck::room(int layer, int64_t start, int64_t rows) {
  columns_ = std::max<int64_t>(1, visible_rows(config_, layer, start + rows - 1));
  scores_.assign(static_cast<size_t>(rows * columns_), kHidden);
  return rows_of(scores_.data(), rows, columns_);
}

// Every row above the last selected score must be in both; whatever only one side has must score exactly that.
bool SelectionCheck::same_selection(int layer, int64_t position, const int32_t* ours, int64_t count,
                                    const float* own) const {
  const GoldenLayer& golden = layers_[static_cast<size_t>(layer)];
  const int64_t r = golden_row(golden, position);
  std::vector<int32_t> mine, theirs, apart;
  float last = std::numeric_limits<float>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    if (ours[i] >= 0) mine.push_back(ours[i]);
  }
  for (int64_t i = 0; i < golden.topk.cols; ++i) {
    const int32_t row = golden.topk.row(r)[i];
    if (row < 0 || score(golden, position, own, row) == kHidden) continue;  // filled up with rows that nobody sees
    theirs.push_back(row);
    last = std::min(last, score(golden, position, own, row));
  }
  if (!golden.topk_last.empty()) last = golden.topk_last.row(r)[0];
  std::sort(theirs.begin(), theirs.end());
  if (mine.size() != theirs.size()) return false;
  std::set_symmetric_difference(mine.begin(), mine.end(), theirs.begin(), theirs.end(), std::back_inserter(apart));
  return std::all_of(apart.begin(), apart.end(),
                     [&](int32_t row) { return ties(golden, score(golden, position, own, row), last); });
}

bool SelectionCheck::same_blocks(int layer, int64_t position, const std::vector<bool>& ours,
                                 const std::vector<bool>& golden, const float* own) const {
  const int64_t visible = visible_rows(config_, layer, position), size = config_.candidate_block_size;
  std::vector<float> block_score(ours.size(), kHidden);
  for (int64_t row = 0; row < visible; ++row) {
    float& best = block_score[static_cast<size_t>(row / size)];
    best = std::max(best, score(layers_[static_cast<size_t>(layer)], position, own, row));
  }
  if (!block_score.empty()) block_score.back() = std::numeric_limits<float>::infinity();
  std::vector<float> sorted = block_score;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const auto kept = static_cast<size_t>(config_.candidate_topk_blocks);
  const float last = sorted.size() > kept ? sorted[kept - 1] : kHidden;
  int64_t balance = 0;
  for (size_t b = 0; b < ours.size(); ++b) {
    if (ours[b] == golden[b]) continue;
    balance += ours[b] ? 1 : -1;
    if (!ties(layers_[static_cast<size_t>(layer)], block_score[b], last)) return false;
  }
  return balance == 0;
}

void SelectionCheck::candidates(int layer, int64_t start, int64_t rows, CandidateLists& lists) {
  const GoldenLayer& golden = layers_[static_cast<size_t>(layer)];
  if (golden.candidates.empty()) return;
  for (int64_t t = 0; t < rows; ++t) {
    const int64_t position = start + t, visible = visible_rows(config_, layer, position);
    const int64_t r = position - first_, size = config_.candidate_block_size;
    if (r < 0 || r >= golden.candidates.rows || visible > golden.candidates.cols) continue;
    const auto blocks = static_cast<size_t>((visible + size - 1) / size);
    std::vector<bool> ours(blocks, lists.counts[t] < 0), theirs(blocks, false);
    int32_t* list = lists.blocks + t * lists.capacity;
    for (int32_t i = 0; i < lists.counts[t]; ++i) ours[static_cast<size_t>(list[i])] = true;
    for (int64_t row = 0; row < visible; ++row) {
      if (golden.candidates.row(r)[row] != 0) theirs[static_cast<size_t>(row / size)] = true;
    }
    wrong_masks_[layer] += !same_blocks(layer, position, ours, theirs, scores_.data() + t * columns_);
    const int64_t kept = std::count(theirs.begin(), theirs.end(), true);
    if (kept > lists.capacity) {
      too_many_candidates = true;
      continue;
    }
    lists.counts[t] = 0;
    for (size_t b = 0; b < blocks; ++b) {
      if (theirs[b]) list[lists.counts[t]++] = static_cast<int32_t>(b);
    }
  }
  if (compared_[static_cast<size_t>(layer)])
    candidates_wrong.take(static_cast<double>(wrong_masks_[layer]), layer_text(layer));
}

void SelectionCheck::topk(int layer, int64_t start, Rows<int32_t> selected) {
  const GoldenLayer& golden = layers_[static_cast<size_t>(layer)];
  if (golden.topk.empty()) return;
  const bool compared = compared_[static_cast<size_t>(layer)];
  for (int64_t t = 0; t < selected.rows; ++t) {
    const int64_t position = start + t, r = golden_row(golden, position);
    if (r < 0) continue;
    const float* own = scores_.data() + t * columns_;
    const int64_t visible = visible_rows(config_, layer, position);
    if (compared && !golden.index_score.empty()) {
      // Columns beyond our own are of rows that this query must not see.
      for (int64_t row = 0; row < golden.index_score.cols; ++row) {
        const float ours = row < std::min(columns_, visible) ? own[row] : kHidden;
        score_steps.take(bf16_steps(ours, golden.index_score.row(r)[row]), layer_text(layer));
      }
    }
    wrong_rows_[layer] += !same_selection(layer, position, selected.row(t), selected.cols, own);
    int64_t count = 0;
    for (int64_t i = 0; i < golden.topk.cols; ++i) {
      if (golden.topk.row(r)[i] >= 0) selected.row(t)[count++] = golden.topk.row(r)[i];
    }
    std::sort(selected.row(t), selected.row(t) + count);
    std::fill(selected.row(t) + count, selected.row(t) + selected.cols, -1);
  }
  if (compared) topk_wrong.take(static_cast<double>(wrong_rows_[layer]), layer_text(layer));
}

}  // namespace deepinfer
