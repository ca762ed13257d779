#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "op_case.h"

// The indexer. Scores come out by the probe; the selection and the blocks are then checked against the op's own scores by a plain sort, so
// that ties and a rare difference of one bf16 unit cannot hide anything.
namespace deepinfer::optest {
namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

struct Data {
  int64_t tokens = 0, heads, head_dim, ratio, k, block_size = 8, capacity = 4, page_rows;
  std::vector<RunView> runs;
  std::vector<bf16> q, weights;
  std::vector<std::vector<std::byte>> pages;
  std::vector<std::vector<std::byte*>> page_pointers;
  std::vector<PagedRows> rows;
  int64_t max_rows = 0;  // visible to the last token of any run
  bool publish = false, use = false;
  std::vector<int32_t> blocks, counts;  // inputs when `use`
  double mean_magnitude = 0;
};

struct Shape {
  const char* name;
  int64_t heads, head_dim, ratio, k, page_rows;
  std::vector<std::pair<int64_t, int64_t>> runs;  // start, tokens
  bool publish = false, use = false, ties = false;
};

std::shared_ptr<Data> make_data(const Shape& s) {
  Random random(s.name);
  auto data = std::make_shared<Data>();
  data->heads = s.heads, data->head_dim = s.head_dim, data->ratio = s.ratio, data->k = s.k,
  data->page_rows = s.page_rows;
  data->publish = s.publish, data->use = s.use;
  const int64_t kv_bytes = 40, key_bytes = index_row_bytes(s.head_dim);
  for (const auto& [start, count] : s.runs) {
    data->runs.push_back({start, data->tokens, count, 0});
    data->tokens += count;
    const int64_t visible = (start + count) / s.ratio;
    data->max_rows = std::max(data->max_rows, visible);
    std::vector<std::byte*> pointers;
    for (int64_t page = 0; page * s.page_rows < visible; ++page) {
      // Rows that nobody can see hold codes that would decode to not-a-number.
      auto& bytes =
          data->pages.emplace_back(static_cast<size_t>(s.page_rows * (kv_bytes + key_bytes)), std::byte{0xFF});
      for (int64_t r = 0; r < s.page_rows && page * s.page_rows + r < visible; ++r) {
        std::byte* key = bytes.data() + s.page_rows * kv_bytes + r * key_bytes;
        for (int64_t i = 0; i < s.head_dim / 2; ++i) key[i] = static_cast<std::byte>(random.word());
        for (int64_t b = 0; b < s.head_dim / 32; ++b)
          key[s.head_dim / 2 + b] = static_cast<std::byte>(124 + random.below(4));
      }
    }
  }
  size_t page = 0;
  for (const RunView& run : data->runs) {
    std::vector<std::byte*>& pointers = data->page_pointers.emplace_back();
    const int64_t visible = (run.start + run.rows) / s.ratio;
    for (int64_t p = 0; p * s.page_rows < visible; ++p) pointers.push_back(data->pages[page++].data());
  }
  for (size_t r = 0; r < data->runs.size(); ++r) {
    data->rows.push_back({data->page_pointers[r].data(), s.page_rows, kv_bytes, key_bytes});
  }
  for (int64_t i = 0; i < data->tokens * s.heads * s.head_dim; ++i) {
    data->q.push_back(
        to_bf16(std::ldexp(e2m1_to_float(static_cast<uint8_t>(random.below(16))), static_cast<int>(i / 32 % 3) - 2)));
  }
  data->weights = random.bf16s(data->tokens * s.heads, 0.3);
  for (size_t i = 0; i < data->weights.size() && s.ties; ++i) {
    // Every second token scores zero everywhere (lowest rows win); the others' scores take few values.
    const bool zero = (static_cast<int64_t>(i) / s.heads) % 2 == 0;
    data->weights[i] = to_bf16(zero ? 0.0f : 0x1p-6f);
  }
  for (int64_t t = 0; t < data->tokens && s.use; ++t) {
    // Ascending blocks, some beyond what is visible; every fifth list keeps everything, every seventh nothing.
    std::vector<int32_t> list;
    for (int32_t b = 0; b < 200 && static_cast<int64_t>(list.size()) < data->capacity; ++b) {
      if (random.chance(0.3)) list.push_back(b);
    }
    data->counts.push_back(t % 5 == 4 ? -1 : t % 7 == 6 ? 0 : static_cast<int32_t>(list.size()));
    list.resize(static_cast<size_t>(data->capacity), -7);
    data->blocks.insert(data->blocks.end(), list.begin(), list.end());
  }
  return data;
}

// The runs cut down to tokens [begin, end), renumbered from 0.
std::vector<RunView> cut(const std::vector<RunView>& runs, int64_t begin, int64_t end, std::vector<PagedRows>& rows) {
  std::vector<RunView> out;
  std::vector<PagedRows> kept;
  for (size_t r = 0; r < runs.size(); ++r) {
    const int64_t from = std::max(begin, runs[r].first_row), to = std::min(end, runs[r].first_row + runs[r].rows);
    if (from > to || (from == to && runs[r].rows > 0)) continue;
    out.push_back({runs[r].start + from - runs[r].first_row, from - begin, to - from, 0});
    kept.push_back(rows[r]);
  }
  rows = kept;
  return out;
}

// The best `count` of scores, lowest index first among equals, ascending; -infinity never.
std::vector<int32_t> top(std::vector<std::pair<float, int32_t>> scored, int64_t count) {
  std::erase_if(scored, [](const auto& s) { return s.first == kHidden; });
  std::sort(scored.begin(), scored.end(),
            [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  if (static_cast<int64_t>(scored.size()) > count) scored.resize(static_cast<size_t>(count));
  std::vector<int32_t> out;
  for (const auto& [score, index] : scored) out.push_back(index);
  std::sort(out.begin(), out.end());
  return out;
}

void run_op(const Data& data, const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out,
            bool probe) {
  std::vector<PagedRows> rows = data.rows;
  const std::vector<RunView> runs = cut(data.runs, begin, end, rows);
  const int64_t count = end - begin, width = data.heads * data.head_dim;
  IndexSelectArgs args;
  args.q = {data.q.data() + begin * width, count, width, width};
  args.weights = {data.weights.data() + begin * data.heads, count, data.heads, data.heads};
  args.heads = data.heads, args.head_dim = data.head_dim, args.ratio = data.ratio;
  args.runs = runs.data(), args.rows = rows.data(), args.run_count = static_cast<int64_t>(runs.size());
  args.block_size = data.block_size;
  args.publish_candidates = data.publish, args.use_candidates = data.use;
  if (data.use) {
    args.candidates = {const_cast<int32_t*>(data.blocks.data()) + begin * data.capacity,
                       const_cast<int32_t*>(data.counts.data()) + begin, data.capacity};
  } else if (data.publish) {
    args.candidates = {out[3].rows_from<int32_t>(begin, 0).data, out[2].rows_from<int32_t>(begin, 0).data,
                       data.capacity};
    // Places of a list beyond its count are not written: give them one content.
    std::fill_n(args.candidates.blocks, count * data.capacity, -9);
  }
  args.selected = out[0].rows_from<int32_t>(begin, count);
  if (probe) args.scores = out[1].rows_from<float>(begin, count);
  args.max_rows = std::max<int64_t>(1, data.max_rows);
  kernels.index_select(context, args);
}

std::string check(const Data& data, const Outputs& out) {
  for (const RunView& run : data.runs) {
    for (int64_t i = 0; i < run.rows; ++i) {
      const int64_t t = run.first_row + i, visible = (run.start + i + 1) / data.ratio;
      const int32_t* kept = data.use ? data.blocks.data() + t * data.capacity : nullptr;
      const int32_t kept_count = data.use ? data.counts[static_cast<size_t>(t)] : -1;
      std::vector<std::pair<float, int32_t>> scored, blocks;
      for (int64_t r = 0; r < data.max_rows; ++r) {
        const float score = out[1].at<float>(t, r);
        const bool candidate =
            kept_count < 0 || std::find(kept, kept + kept_count, r / data.block_size) != kept + kept_count;
        if ((score == kHidden) != (r >= visible || !candidate))
          return fmt::format("token {} row {}: wrongly hidden or shown", t, r);
        if (float_to_bits(score) == 0x80000000u) return fmt::format("token {} row {}: a score of -0", t, r);
        scored.emplace_back(score, static_cast<int32_t>(r));
        if (r >= visible) continue;
        if (r % data.block_size == 0) blocks.emplace_back(kHidden, static_cast<int32_t>(r / data.block_size));
        blocks.back().first = std::max(blocks.back().first, r == visible - 1 ? -kHidden : score);
      }
      std::vector<int32_t> want = top(scored, data.k);
      want.resize(static_cast<size_t>(data.k), -1);
      if (std::memcmp(want.data(), out[0].row(t), want.size() * 4) != 0)
        return fmt::format("token {}: not the {} best rows", t, data.k);
      if (!data.publish) continue;
      const bool all = static_cast<int64_t>(blocks.size()) <= data.capacity;
      std::vector<int32_t> list = top(blocks, data.capacity);
      if (out[2].at<int32_t>(t, 0) != (all ? -1 : static_cast<int32_t>(list.size())))
        return fmt::format("token {}: wrong count of blocks", t);
      if (!all && std::memcmp(list.data(), out[3].row(t), list.size() * 4) != 0)
        return fmt::format("token {}: not the best blocks", t);
    }
  }
  return {};
}

}  // namespace

std::vector<OpCase> index_select_cases() {
  std::vector<OpCase> cases;
  const Shape shapes[] = {
      {"one_row", 4, 64, 1, 8, 16, {{0, 1}}},
      {"nothing_yet", 4, 64, 2, 8, 16, {{0, 1}}},
      {"nano_ratio2", 4, 64, 2, 16, 32, {{0, 17}, {40, 1}, {99, 0}, {63, 3}}},
      {"odd_ratio1", 3, 96, 1, 11, 7, {{5, 2}, {0, 5}, {200, 1}, {0, 1}}},
      {"released", 32, 128, 1, 64, 64, {{700, 2}}},
      {"ties", 4, 64, 1, 10, 16, {{0, 33}, {77, 4}}, false, false, true},
      {"publish", 4, 64, 1, 12, 16, {{0, 50}, {90, 3}, {120, 1}}, true},
      {"publish_ties", 2, 32, 1, 12, 16, {{20, 50}}, true, false, true},
      {"use", 4, 64, 1, 12, 16, {{0, 40}, {150, 30}}, false, true},
      {"k_above_rows", 4, 64, 2, 512, 64, {{0, 64}}},
  };
  for (const Shape& s : shapes) {
    const auto data = make_data(s);
    OpCase op;
    op.op = "index_select";
    op.name = s.name;
    op.units = data->tokens;
    op.make = [data] {
      Outputs out{Output("selected", Kind::i32, data->tokens, data->k, Output::Compare::related),
                  Output("scores", Kind::f32, data->tokens, data->max_rows, Output::Compare::bounded)};
      if (data->publish) {
        out.push_back(Output::dense("counts", Kind::i32, data->tokens, 1, Output::Compare::related));
        out.push_back(Output::dense("blocks", Kind::i32, data->tokens, data->capacity, Output::Compare::related));
      }
      return out;
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      run_op(*data, kernels, context, begin, end, out, true);
    };
    // Scores are bf16: one unit of a head's term (2^-8 of it) where a dot product rounds the other way. Terms are at most some 20 here.
    op.bound = [](const Output&, int64_t, int64_t, double want) { return bf16_ulp(want) + 20 * 0x1p-8; };
    op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) {
      std::string text = check(*data, out);
      Outputs plain = out;
      run_op(*data, kernels, context, 0, data->tokens, plain, false);
      for (size_t i = 0; i < out.size() && text.empty(); ++i)
        text = first_difference(plain[i], out[i], 0, data->tokens);
      return text;
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
