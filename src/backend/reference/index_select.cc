#include "backend/ops/index_select.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Numbers of the `count` largest scores above -infinity, ascending; the lowest number first on ties.
std::vector<int32_t> best(const std::vector<float>& scores, int64_t count) {
  std::vector<int32_t> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] != kHidden) order.push_back(static_cast<int32_t>(i));
  }
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  if (static_cast<int64_t>(order.size()) > count) order.resize(static_cast<size_t>(count));
  std::sort(order.begin(), order.end());
  return order;
}

float score(const IndexSelectArgs& args, int64_t run, int64_t t, int64_t row) {
  double sum = 0;
  for (int64_t h = 0; h < args.heads; ++h) {
    double dot = 0;
    for (int64_t i = 0; i < args.head_dim; ++i) {
      dot +=
          as_double(args.q.row(t)[h * args.head_dim + i]) * index_key_value(args.rows[run].key(row), args.head_dim, i);
    }
    const bf16 rounded = round_to_bf16(dot);
    const double e = std::max(as_double(rounded), 0.0) * as_double(args.weights.row(t)[h]);
    sum += as_double(round_to_bf16(e));
  }
  return to_float(round_to_bf16(sum));
}

void select_query(const IndexSelectArgs& args, int64_t run, int64_t t) {
  const int64_t position = args.runs[run].start + t - args.runs[run].first_row;
  const int64_t visible = (position + 1) / args.ratio;
  int32_t* kept = args.candidates.blocks == nullptr ? nullptr : args.candidates.blocks + t * args.candidates.capacity;

  std::vector<float> scores(static_cast<size_t>(visible), kHidden);
  for (int64_t r = 0; r < visible; ++r) {
    if (args.use_candidates && args.candidates.counts[t] >= 0) {
      int32_t* end = kept + args.candidates.counts[t];
      if (std::find(kept, end, r / args.block_size) == end) continue;
    }
    scores[static_cast<size_t>(r)] = score(args, run, t, r);
  }

  if (args.publish_candidates) {
    const int64_t blocks = (visible + args.block_size - 1) / args.block_size;
    std::vector<float> block_scores(static_cast<size_t>(blocks), kHidden);
    for (int64_t r = 0; r < visible; ++r) {
      float& block = block_scores[static_cast<size_t>(r / args.block_size)];
      block = std::max(block, scores[static_cast<size_t>(r)]);
    }
    if (blocks > 0) block_scores.back() = -kHidden;
    if (blocks <= args.candidates.capacity) {
      args.candidates.counts[t] = -1;
    } else {
      const std::vector<int32_t> list = best(block_scores, args.candidates.capacity);
      std::copy(list.begin(), list.end(), kept);
      args.candidates.counts[t] = static_cast<int32_t>(list.size());
    }
  }

  const std::vector<int32_t> list = best(scores, args.selected.cols);
  std::fill(args.selected.row(t), args.selected.row(t) + args.selected.cols, -1);
  std::copy(list.begin(), list.end(), args.selected.row(t));
  for (int64_t r = 0; r < args.scores.cols && args.scores.data != nullptr; ++r) {
    args.scores.row(t)[r] = r < visible ? scores[static_cast<size_t>(r)] : kHidden;
  }
}

}  // namespace

void index_select(Context&, const IndexSelectArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    for (int64_t t = 0; t < args.runs[run].rows; ++t) select_query(args, run, args.runs[run].first_row + t);
  }
}

}  // namespace deepinfer::reference
