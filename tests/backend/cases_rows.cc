#include <cmath>
#include <memory>

#include "op_case.h"

// Operations on single rows: quantisers, norms, rotation, embedding.
namespace deepinfer::optest {
namespace {

struct RowData {
  std::vector<bf16> x, weight;
  int64_t rows, cols;
  float eps = 0;
  Rows<const bf16> part(int64_t begin, int64_t end) const { return {x.data() + begin * cols, end - begin, cols, cols}; }
};

void copy_rows(const std::vector<bf16>& from, int64_t begin, Rows<bf16> to) {
  for (int64_t r = 0; r < to.rows; ++r) std::copy_n(from.data() + (begin + r) * to.cols, to.cols, to.row(r));
}

// act_quant of `in` by the reference, compared with `out`.
std::string is_act_quant_of(const Output& in, const Output& out) {
  Machine machine(1);
  Output want("want", Kind::bf16, in.rows, in.cols, Output::Compare::exact);
  Output copy = in;
  reference_kernels().act_quant(machine.context(), {copy.all<const bf16>(), want.all<bf16>()});
  return first_difference(want, out, 0, in.rows);
}

// Values at the edges of the quantisers: ties between codes, scales at their floors, largest values, both zeros.
std::vector<bf16> edge_rows(Random& random, int64_t cols) {
  std::vector<bf16> out;
  const auto add = [&](auto&& value) {
    for (int64_t c = 0; c < cols; ++c) out.push_back(to_bf16(static_cast<float>(value(c))));
  };
  add([](int64_t) { return 0.0; });
  add([](int64_t) { return -0.0; });
  for (const double scale : {1e-7, 1e-5, 1e-4, 2e-4, 1e-3, 1.0, 1e3, 1e6, 1e30}) {
    add([&](int64_t) { return random.normal() * scale; });
  }
  for (const double top : {448.0, 449.0, 6.0, 6.03, 224.0, 3.0, 3.01}) {
    for (const int k : {-21, -9, 0, 1, 9, 100}) {
      add([&](int64_t c) {
        return std::ldexp(top * (c % 32 == 3 ? 1 : c % 32 == 20 ? -1 : random.uniform(-0.9, 0.9)), k);
      });
    }
  }
  for (const double step : {16.0, 8.0, 4.0, 2.0})
    add([&](int64_t c) { return (static_cast<double>(c) - 16.0) / step; });
  add([](int64_t c) { return c % 32 == 7 ? 3e38 : c % 32 == 8 ? -3e38 : 1.0; });
  add([](int64_t c) { return c % 32 == 7 ? 1e-30 : 0.0; });
  add([](int64_t c) { return std::ldexp(1.0, static_cast<int>(c % 60) - 30); });
  return out;
}

}  // namespace

std::vector<OpCase> act_quant_cases() {
  std::vector<OpCase> cases;
  for (const int64_t cols : {32, 96, 160, 512}) {
    Random random(fmt::format("act_quant {}", cols));
    auto data = std::make_shared<RowData>();
    data->cols = cols;
    data->x = edge_rows(random, cols);
    const std::vector<bf16> wild = random.wild_rows(20, cols, -30, 30);
    data->x.insert(data->x.end(), wild.begin(), wild.end());
    data->rows = static_cast<int64_t>(data->x.size()) / cols;
    OpCase op;
    op.op = "act_quant";
    op.name = fmt::format("d{}", cols);
    op.units = data->rows;
    op.make = [data] {
      return Outputs{Output("out", Kind::bf16, data->rows, data->cols, Output::Compare::exact),
                     Output("in place", Kind::bf16, data->rows, data->cols, Output::Compare::exact),
                     Output("again", Kind::bf16, data->rows, data->cols, Output::Compare::exact)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      const int64_t count = end - begin;
      kernels.act_quant(context, {data->part(begin, end), out[0].rows_from<bf16>(begin, count)});
      const Rows<bf16> same = out[1].rows_from<bf16>(begin, count);
      copy_rows(data->x, begin, same);
      kernels.act_quant(context, {same, same});
      kernels.act_quant(context, {out[0].rows_from<const bf16>(begin, count), out[2].rows_from<bf16>(begin, count)});
    };
    // Quantised values are on the grid: a second pass changes nothing.
    op.check = [](const Kernels&, Context&, const Outputs& out) {
      const std::string text = first_difference(out[0], out[1], 0, out[0].rows);
      return !text.empty() ? text : first_difference(out[0], out[2], 0, out[0].rows);
    };
    cases.push_back(op);
  }
  return cases;
}

// Mean of squares: d / 16 + 4 additions and two more roundings, halved by the square root; the reciprocal, the two products: 5 more.
std::vector<OpCase> rms_norm_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t rows, cols;
    float eps;
    bool quantised;
    int low, high;
  };
  const Shape shapes[] = {{1, 128, 1e-20f, true, -4, 4},   {2, 160, 1e-6f, true, -30, 10},
                          {3, 5120, 1e-20f, true, -4, 4},  {5, 64, 1e-20f, true, -70, 50},
                          {17, 96, 1e-6f, false, -20, 5},  {64, 512, 1e-20f, true, -40, 40},
                          {65, 40, 1e-20f, false, -4, 4},  {3, 1, 1e-6f, false, -4, 4},
                          {4, 31, 1e-20f, false, -10, 10}, {2, 1280, 1e-20f, false, -2, 2}};
  for (const Shape& s : shapes) {
    const std::string name = fmt::format("t{}_d{}_eps{}", s.rows, s.cols, s.eps);
    Random random(name);
    auto data = std::make_shared<RowData>();
    data->rows = s.rows;
    data->cols = s.cols;
    data->eps = s.eps;
    data->x = random.wild_rows(s.rows, s.cols, s.low, s.high);
    data->weight = random.bf16s(s.cols, 0.5);
    OpCase op;
    op.op = "rms_norm";
    op.name = name;
    op.units = s.rows;
    op.make = [data, s] {
      Outputs out{Output("y", Kind::bf16, s.rows, s.cols, Output::Compare::bounded),
                  Output("y in place", Kind::bf16, s.rows, s.cols, Output::Compare::related)};
      if (s.quantised) out.emplace_back("yq", Kind::bf16, s.rows, s.cols, Output::Compare::related);
      return out;
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      const int64_t count = end - begin;
      RmsNormArgs args{
          data->part(begin, end), data->weight.data(), data->eps, out[0].rows_from<bf16>(begin, count), {}};
      if (out.size() > 2) args.yq = out[2].rows_from<bf16>(begin, count);
      kernels.rms_norm(context, args);
      const Rows<bf16> same = out[1].rows_from<bf16>(begin, count);
      copy_rows(data->x, begin, same);
      kernels.rms_norm(context, {same, data->weight.data(), data->eps, same, {}});
    };
    op.bound = [data](const Output&, int64_t, int64_t, double want) {
      return std::fabs(want) * (static_cast<double>(data->cols) / 32 + 8) * 0x1p-24;
    };
    op.check = [](const Kernels&, Context&, const Outputs& out) {
      const std::string text = first_difference(out[0], out[1], 0, out[0].rows);
      return !text.empty() || out.size() == 2 ? text : is_act_quant_of(out[0], out[2]);
    };
    cases.push_back(op);
  }
  return cases;
}

namespace {

struct RopeData {
  std::vector<int64_t> positions;
  std::vector<float> frequencies, cos, sin;
  std::vector<bf16> x;
  int64_t rows, heads, head_dim, half;
  bool inverse = false, quantised = false;
};

// Frequencies as a model has them, and the exact tables of some positions.
std::shared_ptr<RopeData> rope_data(Random& random, int64_t rows, int64_t half) {
  auto data = std::make_shared<RopeData>();
  data->rows = rows;
  data->half = half;
  constexpr int64_t kEdges[] = {0, 1, 127, 128, 65536, 1048575};
  for (int64_t r = 0; r < rows; ++r) {
    data->positions.push_back(rows > 6 && r < 6 ? kEdges[r] : random.below(1 << 20));
  }
  for (int64_t j = 0; j < half; ++j) {
    data->frequencies.push_back(
        static_cast<float>(std::pow(10000.0, -static_cast<double>(j) / static_cast<double>(half))));
  }
  for (const int64_t position : data->positions) {
    for (const float f : data->frequencies) {
      const double angle = static_cast<double>(static_cast<float>(position) * f);
      data->cos.push_back(static_cast<float>(std::cos(angle)));
      data->sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return data;
}

}  // namespace

// cos and sin: correctly rounded but for near ties, so half a unit in the last place below 1.
std::vector<OpCase> rope_table_cases() {
  std::vector<OpCase> cases;
  for (const auto& [rows, half] :
       {std::pair<int64_t, int64_t>{1, 32}, {2, 16}, {17, 32}, {64, 16}, {3, 1}, {130, 32}}) {
    const std::string name = fmt::format("t{}_half{}", rows, half);
    Random random(name);
    const auto data = rope_data(random, rows, half);
    OpCase op;
    op.op = "rope_table";
    op.name = name;
    op.units = rows;
    op.make = [data] {
      return Outputs{Output::dense("cos", Kind::f32, data->rows, data->half, Output::Compare::bounded),
                     Output::dense("sin", Kind::f32, data->rows, data->half, Output::Compare::bounded)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.rope_table(context, {data->positions.data() + begin, end - begin, data->frequencies.data(), data->half,
                                   out[0].rows_from<float>(begin, 0).data, out[1].rows_from<float>(begin, 0).data});
    };
    op.bound = [](const Output&, int64_t, int64_t, double) { return 0x1p-24; };
    cases.push_back(op);
  }
  return cases;
}

std::vector<OpCase> rope_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    int64_t rows, heads, head_dim, half;
    bool inverse, quantised;
  };
  const Shape shapes[] = {{1, 6, 128, 16, false, false}, {2, 1, 64, 16, true, false},  {3, 64, 512, 32, true, false},
                          {17, 3, 96, 16, false, true},  {64, 4, 64, 32, false, true}, {5, 32, 128, 32, false, true},
                          {3, 2, 48, 8, false, false},   {2, 2, 64, 0, false, true},   {65, 1, 32, 16, true, false}};
  for (const Shape& s : shapes) {
    const std::string name = fmt::format("t{}_h{}_d{}_half{}{}{}", s.rows, s.heads, s.head_dim, s.half,
                                         s.inverse ? "_inverse" : "", s.quantised ? "_fp4" : "");
    Random random(name);
    const auto data = rope_data(random, s.rows, s.half);
    data->heads = s.heads;
    data->head_dim = s.head_dim;
    data->inverse = s.inverse;
    data->quantised = s.quantised;
    data->x = random.wild_rows(s.rows, s.heads * s.head_dim, -20, 20);
    OpCase op;
    op.op = "rope";
    op.name = name;
    op.units = s.rows;
    const auto rotate = [data](const Kernels& kernels, Context& context, int64_t begin, Rows<bf16> rows,
                               bool quantise) {
      copy_rows(data->x, begin, rows);
      kernels.rope(context, {rows, data->head_dim, data->cos.data() + begin * data->half,
                             data->sin.data() + begin * data->half, data->half, data->inverse, quantise});
    };
    op.make = [data] {
      const int64_t cols = data->heads * data->head_dim;
      Outputs out{Output("rotated", Kind::bf16, data->rows, cols, Output::Compare::bounded)};
      if (data->quantised) out.emplace_back("quantised", Kind::bf16, data->rows, cols, Output::Compare::related);
      return out;
    };
    op.run = [rotate](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      rotate(kernels, context, begin, out[0].rows_from<bf16>(begin, end - begin), false);
      if (out.size() > 1) rotate(kernels, context, begin, out[1].rows_from<bf16>(begin, end - begin), true);
    };
    // Two products and a sum, each off by 2^-24 of |a| + |b| at most.
    op.bound = [data](const Output&, int64_t row, int64_t col, double) {
      const auto at = [&](int64_t c) {
        return std::fabs(
            static_cast<double>(to_float(data->x[static_cast<size_t>(row * data->heads * data->head_dim + c)])));
      };
      const bool turned = col % data->head_dim >= data->head_dim - 2 * data->half;
      return turned ? (at(col) + at(col ^ 1)) * 0x1p-23 : -bf16_ulp(at(col));
    };
    op.check = [data](const Kernels&, Context& context, const Outputs& out) -> std::string {
      if (out.size() == 1) return {};
      Output want = out[0];
      reference_kernels().rope(context, {want.all<bf16>(), data->head_dim, nullptr, nullptr, 0, false, true});
      return first_difference(want, out[1], 0, want.rows);
    };
    cases.push_back(op);
  }
  return cases;
}

std::vector<OpCase> embed_cases() {
  std::vector<OpCase> cases;
  for (const auto& [rows, d] : {std::pair<int64_t, int64_t>{1, 128}, {2, 160}, {17, 256}, {64, 40}, {5, 5120}}) {
    struct Data {
      std::vector<int32_t> tokens;
      std::vector<bf16> table;
      int64_t d;
    };
    constexpr int64_t kVocab = 50;
    Random random(fmt::format("embed {}", d));
    auto data = std::make_shared<Data>();
    data->d = d;
    data->table = random.bf16s(kVocab * d, 1);
    for (int64_t t = 0; t < rows; ++t)
      data->tokens.push_back(static_cast<int32_t>(t == 0 ? kVocab - 1 : random.below(kVocab)));
    OpCase op;
    op.op = "embed";
    op.name = fmt::format("t{}_d{}", rows, d);
    op.units = rows;
    op.make = [data] {
      const auto rows = static_cast<int64_t>(data->tokens.size());
      return Outputs{Output("x", Kind::bf16, rows, 4 * data->d, Output::Compare::exact),
                     Output::dense("pre", Kind::f32, rows, 4, Output::Compare::exact)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.embed(context, {data->tokens.data() + begin, end - begin, data->table.data(),
                              out[0].rows_from<bf16>(begin, end - begin), out[1].rows_from<float>(begin, 0).data});
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
