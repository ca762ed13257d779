#include "backend/ops/attention.h"

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

constexpr size_t kChunk = 64;

// A decoded row, or no values for an empty column.
using Column = std::vector<double>;

// All columns of query t, in order.
std::vector<Column> columns_of(const AttentionArgs& args, int64_t run_index, int64_t t) {
  const RunView& run = args.runs[run_index];
  const int64_t d = args.head_dim, position = run.start + t - run.first_row, base = run.start - 1;
  std::vector<Column> columns;
  const auto add_window_row = [&](const std::byte* row) {
    Column values(static_cast<size_t>(d));
    for (int64_t i = 0; i < d; ++i) values[static_cast<size_t>(i)] = window_value(row, d, i);
    columns.push_back(std::move(values));
  };
  const auto step_row = [&](int64_t row) { return args.step_rows + row * window_row_bytes(d); };
  const auto add_position = [&](int64_t p) {
    add_window_row(p >= run.start ? step_row(run.first_row + p - run.start)
                                  : args.rings[run_index] + (p % args.ring_rows) * window_row_bytes(d));
  };

  switch (args.columns) {
    case WindowColumns::causal:
      for (int64_t p = std::max(run.window_begin, position - args.window + 1); p <= position; ++p) add_position(p);
      columns.resize(static_cast<size_t>(args.window));
      break;
    case WindowColumns::draft:
      for (int64_t c = 0; c < std::min(args.window, base + 1); ++c) {
        int64_t p = base;
        while (p % args.window != c) --p;
        if (p >= run.window_begin) {
          add_position(p);
        } else {
          columns.emplace_back();
        }
      }
      for (int64_t r = 0; r < run.rows; ++r) add_position(run.start + r);
      break;
    case WindowColumns::listed:
      for (int64_t c = 0; c < args.listed.cols; ++c) {
        const int32_t row = args.listed.row(t)[c];
        if (row >= 0) {
          add_window_row(step_row(row));
        } else {
          columns.emplace_back();
        }
      }
      break;
  }
  for (int64_t c = 0; args.compressed != nullptr && c < args.selected.cols; ++c) {
    const int32_t row = args.selected.row(t)[c];
    Column values(row < 0 ? 0 : static_cast<size_t>(d));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = compressed_value(args.compressed[run_index].kv(row), d, static_cast<int64_t>(i));
    }
    columns.push_back(std::move(values));
  }
  return columns;
}

// Spec 5.4 for one head.
void attend(const AttentionArgs& args, const std::vector<Column>& columns, const bf16* q, double sink, bf16* out) {
  const int64_t d = args.head_dim;
  double m = -1e30, sum = 0;
  std::vector<double> acc(static_cast<size_t>(d), 0.0);
  for (size_t begin = 0; begin < columns.size(); begin += kChunk) {
    const size_t end = std::min(columns.size(), begin + kChunk);
    std::vector<double> s(kChunk, -HUGE_VAL);
    double largest = m;
    for (size_t c = begin; c < end; ++c) {
      if (columns[c].empty()) continue;
      double dot = 0;
      for (int64_t i = 0; i < d; ++i) dot += as_double(q[i]) * columns[c][static_cast<size_t>(i)];
      s[c - begin] = dot * static_cast<double>(args.scale);
      largest = std::max(largest, s[c - begin]);
    }
    const double a = std::exp(m - largest);
    m = largest;
    sum *= a;
    for (double& value : acc) value *= a;
    for (size_t c = begin; c < end; ++c) {
      if (columns[c].empty()) continue;
      const double p = std::exp(s[c - begin] - m);
      sum += p;
      const double rounded = as_double(round_to_bf16(p));
      for (size_t i = 0; i < acc.size(); ++i) acc[i] += rounded * columns[c][i];
    }
  }
  sum += std::exp(sink - m);
  for (size_t i = 0; i < acc.size(); ++i) out[i] = round_to_bf16(acc[i] / sum);
}

}  // namespace

void attention(Context&, const AttentionArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    for (int64_t t = args.runs[run].first_row; t < args.runs[run].first_row + args.runs[run].rows; ++t) {
      const std::vector<Column> columns = columns_of(args, run, t);
      for (int64_t h = 0; h < args.heads; ++h) {
        bf16* out = args.out.row(t) + h * args.head_dim;
        attend(args, columns, args.q.row(t) + h * args.head_dim, static_cast<double>(args.sink[h]), out);
        rope_head(out, args.head_dim, args.cos + t * args.half, args.sin + t * args.half, args.half, true);
      }
    }
  }
}

}  // namespace deepinfer::reference
