#include <algorithm>
#include <cmath>
#include <memory>

#include "op_case.h"

namespace deepinfer::optest {
namespace {

struct HashData {
  int64_t tokens = 0, max_ngram, heads;
  std::vector<RunView> runs;
  std::vector<std::vector<int32_t>> classes;  // [runs] max_ngram - 1 entries before the run, then its tokens
  std::vector<uint64_t> multipliers, primes, offsets;
  int64_t columns() const { return (max_ngram - 1) * heads; }
};

}  // namespace

std::vector<OpCase> engram_hash_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    const char* name;
    int64_t max_ngram, heads;
    std::vector<int64_t> runs;
    int64_t classes;
  };
  for (const Shape& s :
       {Shape{"released", 4, 8, {17, 1, 0, 3}, 99092}, {"nano", 3, 4, {1, 64}, 900}, {"bigram", 2, 1, {5, 2}, 50}}) {
    Random random(s.name);
    auto data = std::make_shared<HashData>();
    data->max_ngram = s.max_ngram, data->heads = s.heads;
    for (size_t r = 0; r < s.runs.size(); ++r) {
      const int64_t start = r == 0 ? 0 : random.below(4);
      data->runs.push_back({start, data->tokens, s.runs[r], 0});
      data->tokens += s.runs[r];
      auto& classes = data->classes.emplace_back();
      for (int64_t p = start - (s.max_ngram - 1); p < start + s.runs[r]; ++p) {
        classes.push_back(p < 0 ? -2
                          : random.chance(0.1)
                              ? -1
                              : static_cast<int32_t>(random.chance(0.2) ? s.classes - 1 : random.below(s.classes)));
      }
    }
    for (int64_t i = 0; i < s.max_ngram; ++i) data->multipliers.push_back(random.word() % (uint64_t{1} << 46) * 2 + 1);
    for (int64_t i = 0; i < data->columns(); ++i) {
      data->primes.push_back(static_cast<uint64_t>(16000057 + 2 * i));
      data->offsets.push_back(static_cast<uint64_t>(i) * 16000057);
    }
    OpCase op;
    op.op = "engram_hash";
    op.name = s.name;
    op.units = data->tokens;
    op.make = [data] {
      return Outputs{Output("ids", Kind::i64, data->tokens, data->columns(), Output::Compare::exact)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      std::vector<RunView> runs;
      std::vector<const int32_t*> classes;
      for (size_t r = 0; r < data->runs.size(); ++r) {
        const RunView& run = data->runs[r];
        const int64_t from = std::max(begin, run.first_row), to = std::min(end, run.first_row + run.rows);
        if (from > to || (from == to && run.rows > 0)) continue;
        runs.push_back({run.start + from - run.first_row, from - begin, to - from, 0});
        classes.push_back(data->classes[r].data() + data->max_ngram - 1 + from - run.first_row);
      }
      kernels.engram_hash(context, {classes.data(), runs.data(), static_cast<int64_t>(runs.size()), data->max_ngram,
                                    data->heads, data->multipliers.data(), data->primes.data(), data->offsets.data(), 2,
                                    out[0].rows_from<int64_t>(begin, end - begin)});
    };
    cases.push_back(op);
  }
  return cases;
}

std::vector<OpCase> engram_gather_cases() {
  struct Data {
    int64_t tokens, columns, head_dim;
    std::vector<int64_t> ids;
    std::vector<uint8_t> codes, scales;
  };
  std::vector<OpCase> cases;
  struct Shape {
    int64_t tokens, columns, head_dim;
    int scale_low, scale_high;
  };
  for (const Shape& s : {Shape{1, 24, 256, 110, 130}, {17, 12, 32, 1, 245}, {64, 8, 64, 110, 130}, {3, 1, 96, 0, 6}}) {
    const std::string name = fmt::format("t{}_c{}_d{}", s.tokens, s.columns, s.head_dim);
    Random random(name);
    constexpr int64_t kRows = 200;
    auto data = std::make_shared<Data>();
    data->tokens = s.tokens, data->columns = s.columns, data->head_dim = s.head_dim;
    data->codes = random.bytes(kRows * s.head_dim);
    for (uint8_t& code : data->codes) code = (code & 0x7F) == 0x7F ? 0 : code;
    for (int64_t i = 0; i < kRows * s.head_dim / 32; ++i)
      data->scales.push_back(static_cast<uint8_t>(s.scale_low + random.below(s.scale_high - s.scale_low + 1)));
    for (int64_t i = 0; i < s.tokens * s.columns; ++i) data->ids.push_back(i == 0 ? kRows - 1 : random.below(kRows));
    OpCase op;
    op.op = "engram_gather";
    op.name = name;
    op.units = s.tokens;
    op.make = [data] {
      return Outputs{Output("rows", Kind::bf16, data->tokens, data->columns * data->head_dim, Output::Compare::exact)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.engram_gather(context,
                            {{data->ids.data() + begin * data->columns, end - begin, data->columns, data->columns},
                             data->codes.data(),
                             data->scales.data(),
                             data->head_dim,
                             out[0].rows_from<bf16>(begin, end - begin)});
    };
    cases.push_back(op);
  }
  return cases;
}

std::vector<OpCase> engram_write_cases() {
  struct Data {
    int64_t tokens, d;
    std::vector<bf16> x, kv, q_weight, k_weight;
    std::vector<uint8_t> image;
    float eps;
    std::vector<double> gate_bound;  // [tokens, 4]
  };
  std::vector<OpCase> cases;
  struct Shape {
    int64_t tokens, d;
    bool wild, images;
  };
  for (const Shape& s : {Shape{1, 128, false, false},
                         {2, 160, true, false},
                         {17, 96, true, true},
                         {64, 64, false, true},
                         {3, 5120, false, false},
                         {5, 48, false, false}}) {
    const std::string name =
        fmt::format("t{}_d{}{}{}", s.tokens, s.d, s.wild ? "_wild" : "", s.images ? "_images" : "");
    Random random(name);
    auto data = std::make_shared<Data>();
    data->tokens = s.tokens, data->d = s.d;
    data->eps = s.d == 160 ? 1e-6f : 1e-20f;
    data->x = s.wild ? random.wild_rows(s.tokens * 4, s.d, -20, 20) : random.bf16s(s.tokens * 4 * s.d, 1);
    data->kv = s.wild ? random.wild_rows(s.tokens * 5, s.d, -20, 20) : random.bf16s(s.tokens * 5 * s.d, 1);
    std::copy_n(data->x.begin(), s.d, data->kv.begin());  // a gate near its largest
    data->q_weight = random.bf16s(4 * s.d, 0.7);
    data->k_weight = random.bf16s(4 * s.d, 0.7);
    for (int64_t t = 0; t < s.tokens && s.images; ++t) data->image.push_back(t % 2 == 1);
    // dot: d / 16 + 4 additions of rounded products, as many (halved) in each norm; g' = slope of sigmoid(sqrt|dot|) <= 1 / (8 sqrt|dot|),
    // sqrt|dot| being at least 1e-3. The errors of many additions partly cancel: their square root, six times over.
    for (int64_t i = 0; i < s.tokens * 4; ++i) {
      double xx = 0, kk = 0, magnitude = 0, sum = 0;
      for (int64_t e = 0; e < s.d; ++e) {
        const auto at = [](const std::vector<bf16>& v, int64_t j) {
          return static_cast<double>(to_float(v[static_cast<size_t>(j)]));
        };
        const double x = at(data->x, i * s.d + e), key = at(data->kv, (i / 4 * 5 + i % 4) * s.d + e);
        const double term = x * key * at(data->q_weight, i % 4 * s.d + e) * at(data->k_weight, i % 4 * s.d + e);
        xx += x * x, kk += key * key, magnitude += std::fabs(term), sum += term;
      }
      const auto d = static_cast<double>(s.d);
      const double norm =
          std::sqrt((xx / d + static_cast<double>(data->eps)) * (kk / d + static_cast<double>(data->eps)) * d);
      const double error = 6 * std::sqrt(d / 16 + 8) * 0x1p-24 * magnitude / norm;
      data->gate_bound.push_back(error / (8 * std::sqrt(std::max(std::fabs(sum / norm) - error, 1e-6))) + 3e-7);
    }
    OpCase op;
    op.op = "engram_write";
    op.name = name;
    op.units = s.tokens;
    op.make = [data] {
      return Outputs{Output("x", Kind::bf16, data->tokens, 4 * data->d, Output::Compare::bounded), [&] {
                       Output gate = Output::dense("gate", Kind::f32, data->tokens, 4, Output::Compare::bounded);
                       gate.min_equal = 0;
                       return gate;
                     }()};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      const Rows<bf16> x = out[0].rows_from<bf16>(begin, end - begin);
      for (int64_t t = begin; t < end; ++t)
        std::copy_n(data->x.data() + t * 4 * data->d, 4 * data->d, x.row(t - begin));
      kernels.engram_write(context, {x,
                                     data->d,
                                     {data->kv.data() + begin * 5 * data->d, end - begin, 5 * data->d, 5 * data->d},
                                     data->q_weight.data(),
                                     data->k_weight.data(),
                                     data->eps,
                                     data->image.empty() ? nullptr : data->image.data() + begin,
                                     out[1].rows_from<float>(begin, 0).data});
    };
    op.bound = [data](const Output& output, int64_t t, int64_t col, double) {
      const int64_t c = output.kind == Kind::f32 ? col : col / data->d;
      const double gate = data->gate_bound[static_cast<size_t>(t * 4 + c)];
      if (output.kind == Kind::f32) return gate;
      const auto value = std::fabs(
          static_cast<double>(to_float(data->kv[static_cast<size_t>((t * 5 + 4) * data->d + col % data->d)])));
      const auto x = std::fabs(static_cast<double>(to_float(data->x[static_cast<size_t>(t * 4 * data->d + col)])));
      return gate * value + (x + value) * 0x1p-23;
    };
    // Image tokens pass as they are.
    op.check = [data](const Kernels&, Context&, const Outputs& out) -> std::string {
      for (size_t t = 0; t < data->image.size(); ++t) {
        if (data->image[t] == 0) continue;
        for (int64_t i = 0; i < 4 * data->d; ++i) {
          const auto want =
              static_cast<double>(to_float(data->x[t * static_cast<size_t>(4 * data->d) + static_cast<size_t>(i)]));
          if (out[0].value(static_cast<int64_t>(t), i) != want) return fmt::format("image token {} changed", t);
        }
        for (int64_t c = 0; c < 4; ++c) {
          if (out[1].value(static_cast<int64_t>(t), c) != 0) return fmt::format("image token {} has a gate", t);
        }
      }
      return {};
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
