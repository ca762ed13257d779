#include <algorithm>
#include <cmath>
#include <memory>

#include "backend/reference/reference.h"
#include "op_case.h"

// Sparse attention. Units are tokens (runs for drafts): a unit alone finds the positions before it in its ring instead of among the step's
// rows, so that independence of units is also independence of chunking. Dead ring slots and rows beyond a run hold not-a-number codes.
namespace deepinfer::optest {
namespace {

struct Data {
  WindowColumns columns;
  int64_t tokens = 0, heads, head_dim, window, half, selected = 0, listed = 0;
  int64_t ring_rows;
  std::vector<RunView> runs;
  std::vector<std::vector<std::byte>> history;  // [runs] window rows of positions 0 .. start + rows - 1
  std::vector<std::vector<std::byte>> pages;    // [runs] one page of compressed rows each
  std::vector<bf16> q;
  std::vector<float> sink, cos, sin;
  std::vector<int32_t> selected_rows, listed_rows;
  int64_t row_bytes() const { return window_row_bytes(head_dim); }
};

struct Run {
  int64_t start, rows, window_begin = 0;
};
struct Shape {
  const char* name;
  WindowColumns columns;
  int64_t heads, head_dim, half, window;
  std::vector<Run> runs;
  int64_t selected = 0, compressed_rows = 0, listed = 0;
  double q_scale = 1;
};

std::vector<std::byte> random_window_row(Random& random, int64_t d) {
  std::vector<std::byte> row(static_cast<size_t>(window_row_bytes(d)));
  const std::vector<bf16> values = random.bf16s(d, 1);
  reference::encode_window_row(values.data(), d, row.data());
  return row;
}

std::shared_ptr<Data> make_data(const Shape& s) {
  Random random(s.name);
  auto data = std::make_shared<Data>();
  data->columns = s.columns, data->heads = s.heads, data->head_dim = s.head_dim, data->half = s.half,
  data->window = s.window;
  data->selected = s.selected, data->listed = s.listed;
  data->ring_rows = s.window + 12;
  for (const Run& run : s.runs) {
    data->runs.push_back({run.start, data->tokens, run.rows, run.window_begin});
    data->tokens += run.rows;
    auto& history = data->history.emplace_back();
    for (int64_t p = 0; p < run.start + run.rows; ++p) {
      const std::vector<std::byte> row = random_window_row(random, s.head_dim);
      history.insert(history.end(), row.begin(), row.end());
    }
    auto& page = data->pages.emplace_back();
    for (int64_t r = 0; r < s.compressed_rows; ++r) {
      const std::vector<bf16> values = random.bf16s(s.head_dim, 1);
      page.resize(page.size() + static_cast<size_t>(compressed_row_bytes(s.head_dim)));
      reference::encode_compressed_row(values.data(), s.head_dim,
                                       page.data() + page.size() - compressed_row_bytes(s.head_dim));
    }
  }
  data->q = random.bf16s(data->tokens * s.heads * s.head_dim, s.q_scale);
  data->sink = random.floats(s.heads, 1);
  data->sink[0] = 8;
  for (int64_t i = 0; i < data->tokens * s.half; ++i) {
    const double angle = random.uniform(0, 6.3);
    data->cos.push_back(static_cast<float>(std::cos(angle)));
    data->sin.push_back(static_cast<float>(std::sin(angle)));
  }
  for (int64_t t = 0; t < data->tokens; ++t) {
    std::vector<int32_t> rows;
    for (int32_t r = 0; r < s.compressed_rows && static_cast<int64_t>(rows.size()) < s.selected; ++r) {
      if (t % 5 != 4 && random.chance(0.8)) rows.push_back(r);
    }
    rows.resize(static_cast<size_t>(s.selected), -1);
    data->selected_rows.insert(data->selected_rows.end(), rows.begin(), rows.end());
    for (int64_t c = 0; c < s.listed; ++c) {  // holes: everything, the first chunk, single places
      const bool hole = t == 0 || (t == 1 && c < 64) || (t == 2 && c >= 64) || random.chance(0.2);
      data->listed_rows.push_back(hole ? -1
                                       : static_cast<int32_t>(random.below(data->runs[0].start + data->runs[0].rows)));
    }
  }
  return data;
}

void run_op(const Data& data, const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
  const bool draft = data.columns == WindowColumns::draft, listed = data.columns == WindowColumns::listed;
  std::vector<RunView> runs;
  std::vector<PagedRows> compressed;
  std::vector<std::byte*> page_pointers(data.runs.size());
  std::vector<std::vector<std::byte>> rings;
  std::vector<std::byte> step;
  for (size_t r = 0; r < data.runs.size(); ++r) {
    const RunView& run = data.runs[r];
    int64_t from = std::max(begin, run.first_row), to = std::min(end, run.first_row + run.rows);
    if (draft) {
      const bool inside = static_cast<int64_t>(r) >= begin && static_cast<int64_t>(r) < end;
      from = run.first_row, to = inside ? run.first_row + run.rows : from;
    }
    if (from > to || (from == to && run.rows > 0)) continue;
    const int64_t start = run.start + from - run.first_row;
    runs.push_back({start, static_cast<int64_t>(step.size()) / data.row_bytes(), to - from, run.window_begin});
    const std::byte* history = data.history[r].data();
    step.insert(step.end(), history + (listed ? 0 : start) * data.row_bytes(),
                history + (listed ? run.start + run.rows : start + to - from) * data.row_bytes());
    auto& ring = rings.emplace_back(static_cast<size_t>(data.ring_rows * data.row_bytes()), std::byte{0xFF});
    for (int64_t p = std::max<int64_t>(run.window_begin, start - data.ring_rows); p < start; ++p) {
      std::copy_n(history + p * data.row_bytes(), data.row_bytes(),
                  ring.data() + p % data.ring_rows * data.row_bytes());
    }
    page_pointers[r] = const_cast<std::byte*>(data.pages[r].data());
    compressed.push_back({&page_pointers[r], 1 << 20, compressed_row_bytes(data.head_dim), 0});
  }
  std::vector<const std::byte*> ring_pointers;
  for (const auto& ring : rings) ring_pointers.push_back(ring.data());
  const int64_t first = draft ? (begin < end ? data.runs[static_cast<size_t>(begin)].first_row : 0) : begin;
  int64_t count = 0;
  for (const RunView& run : runs) count += run.rows;
  const int64_t width = data.heads * data.head_dim;

  AttentionArgs args;
  args.q = {data.q.data() + first * width, count, width, width};
  args.out = out[0].rows_from<bf16>(first, count);
  args.heads = data.heads, args.head_dim = data.head_dim;
  args.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(data.head_dim)));
  args.sink = data.sink.data();
  args.columns = data.columns, args.window = data.window;
  args.listed = {data.listed_rows.data() + first * data.listed, count, data.listed, data.listed};
  args.runs = runs.data(), args.run_count = static_cast<int64_t>(runs.size());
  args.step_rows = step.data(), args.rings = ring_pointers.data(), args.ring_rows = data.ring_rows;
  if (data.selected > 0) {
    args.compressed = compressed.data();
    args.selected = {data.selected_rows.data() + first * data.selected, count, data.selected, data.selected};
  }
  args.cos = data.cos.data() + first * data.half, args.sin = data.sin.data() + first * data.half, args.half = data.half;
  kernels.attention(context, args);
}

}  // namespace

std::vector<OpCase> attention_cases() {
  using enum WindowColumns;
  std::vector<OpCase> cases;
  const Shape shapes[] = {
      {"first_token", causal, 2, 32, 8, 16, {{0, 1}}},
      {"short_prompt", causal, 4, 64, 16, 128, {{0, 5}}, 6, 9},
      {"nano_window", causal, 4, 128, 16, 32, {{0, 40}, {70, 1}, {10, 0}, {33, 3}}},
      {"nano_compressed", causal, 4, 128, 16, 32, {{50, 17}, {0, 2}}, 20, 30},
      {"odd", causal, 3, 96, 16, 29, {{5, 2}, {61, 5}}, 11, 40},
      {"three_chunks", causal, 2, 64, 16, 128, {{1, 1}, {140, 17}, {127, 2}}, 70, 90},
      {"replayed_suffix", causal, 2, 64, 16, 32, {{100, 40, 100}, {60, 3, 55}}, 8, 12},
      {"released", causal, 64, 512, 32, 128, {{300, 1}}, 512, 520},
      {"long_batch", causal, 2, 32, 8, 64, {{0, 64}, {64, 65}}, 12, 20},
      {"large_scores", causal, 4, 64, 16, 32, {{40, 5}}, 20, 30, 0, 30.0},
      {"draft_early", draft, 4, 64, 16, 32, {{1, 5}, {7, 5}}},
      {"draft_full", draft, 4, 128, 16, 32, {{32, 4}, {45, 5}, {200, 5}, {64, 1}}},
      {"draft_replayed", draft, 2, 64, 16, 32, {{90, 5, 80}}},
      {"draft_window_128", draft, 2, 64, 16, 128, {{100, 5}, {300, 5}}},
      {"listed", listed, 4, 64, 0, 0, {{80, 9}}, 0, 0, 70},
      {"listed_and_selected", listed, 2, 64, 16, 0, {{60, 5}}, 9, 20, 130},
  };
  for (const Shape& s : shapes) {
    const auto data = make_data(s);
    OpCase op;
    op.op = "attention";
    op.name = s.name;
    op.units = s.columns == draft ? static_cast<int64_t>(s.runs.size()) : data->tokens;
    op.make = [data, s] {
      Outputs out{Output("o", Kind::bf16, data->tokens, data->heads * data->head_dim, Output::Compare::bounded)};
      for (size_t r = 0; s.columns == draft && r <= data->runs.size(); ++r) {
        out[0].first_rows.push_back(r < data->runs.size() ? data->runs[r].first_row : data->tokens);
      }
      return out;
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      run_op(*data, kernels, context, begin, end, out);
    };
    // A probability that rounds the other way moves the output by 2^-8 of its share; scores themselves are exact to some 1e-6, so this is
    // rare, and all shares add up to 1: 2^-8 of the largest value in the rows (about 5 here), twice for the rotation.
    op.bound = [](const Output&, int64_t, int64_t, double) { return 5 * 0x1p-7; };
    // Over a head's row: shares add up to 1, so 2^-8 at most; and hardly ever a tenth of that.
    op.compare = [data](const Outputs& got, const Outputs& want) -> std::string {
      Closeness rows;
      rows.min_equal = 0.95;
      for (int64_t t = 0; t < data->tokens; ++t) {
        for (int64_t h = 0; h < data->heads; ++h) {
          double difference = 0, norm = 0;
          for (int64_t i = h * data->head_dim; i < (h + 1) * data->head_dim; ++i) {
            difference += std::pow(got[0].value(t, i) - want[0].value(t, i), 2);
            norm += std::pow(want[0].value(t, i), 2);
          }
          const double relative = std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
          rows.add("share of the row's norm, token and head", t, h, relative < 4e-4 ? 0 : relative, 0, 0x1p-8);
        }
      }
      return rows.verdict();
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
