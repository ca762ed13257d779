#include <cmath>
#include <memory>

#include "op_case.h"

// Matrix products. What float32 may lose in the contract's order: each lane adds k / 16 exact products, the halves 4 more, every
// addition rounds by 2^-24 of a partial sum, which is at most sum |x w|. Denormal products and sums become zero: 2^-126 each.
namespace deepinfer::optest {
namespace {

struct Data {
  std::vector<bf16> x;
  Weight w;
  int64_t tokens, columns;  // columns of x: k, or groups * k
  int64_t groups = 1;
  std::vector<double> magnitude;  // [tokens, n] sum |x w|
};

// Matrix values in float64, decoded by the definitions of spec 2 (the reference decodes for itself).
std::vector<double> decode(const Matrix& w) {
  std::vector<double> out(static_cast<size_t>(w.n * w.k));
  for (int64_t n = 0; n < w.n; ++n) {
    for (int64_t k = 0; k < w.k; ++k) {
      double& value = out[static_cast<size_t>(n * w.k + k)];
      if (w.kind == WeightKind::bf16) {
        value = static_cast<double>(to_float(static_cast<const bf16*>(w.data)[n * w.k + k]));
        continue;
      }
      const auto* bytes = static_cast<const uint8_t*>(w.data);
      const bool fp8 = w.kind == WeightKind::fp8_tile;
      const uint8_t scale = w.scale[(fp8 ? n / 32 : n) * (w.k / 32) + k / 32];
      const float code =
          fp8 ? e4m3_to_float(bytes[n * w.k + k]) : e2m1_to_float(bytes[(n * w.k + k) / 2] >> (k % 2 * 4) & 15);
      value = scale == 0 ? 0.0 : std::ldexp(static_cast<double>(code), scale - 127);
    }
  }
  return out;
}

void measure(Data& data) {
  const std::vector<double> w = decode(data.w.matrix);
  const int64_t n = data.w.matrix.n, k = data.w.matrix.k;
  for (int64_t t = 0; t < data.tokens; ++t) {
    for (int64_t o = 0; o < n; ++o) {
      const int64_t first = o / (n / data.groups) * k;
      double sum = 0, tiny = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double x = static_cast<double>(to_float(data.x[static_cast<size_t>(t * data.columns + first + i)]));
        sum += std::fabs(x * w[static_cast<size_t>(o * k + i)]);
        tiny += std::fabs(x) + std::fabs(w[static_cast<size_t>(o * k + i)]) + 2;
      }
      data.magnitude.push_back(sum * static_cast<double>(k / 16 + 5) * 0x1p-24 + tiny * 0x1p-126);
    }
  }
}

OpCase linear_case(const std::string& name, std::shared_ptr<Data> data, bool exact, double min_equal = 0.99) {
  measure(*data);
  OpCase op;
  op.op = "linear";
  op.name = name;
  op.units = data->tokens;
  const auto compare = exact ? Output::Compare::exact : Output::Compare::bounded;
  op.make = [data, compare, min_equal] {
    Outputs out{Output("out", Kind::bf16, data->tokens, data->w.matrix.n, compare),
                float_output("out_f32", data->tokens, data->w.matrix.n)};
    out[0].min_equal = min_equal;
    out[1].compare = compare;
    return out;
  };
  op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
    const Rows<const bf16> x{data->x.data() + begin * data->columns, end - begin, data->w.matrix.k, data->columns};
    kernels.linear(context, {x, data->w.matrix, out[0].rows_from<bf16>(begin, end - begin), {}});
    kernels.linear(context, {x, data->w.matrix, {}, out[1].rows_from<float>(begin, end - begin)});
  };
  op.bound = [data](const Output& output, int64_t row, int64_t col, double) {
    (void)output;
    return data->magnitude[static_cast<size_t>(row * data->w.matrix.n + col)];
  };
  op.check = [](const Kernels&, Context&, const Outputs& out) -> std::string {
    for (int64_t r = 0; r < out[0].rows; ++r) {
      for (int64_t c = 0; c < out[0].cols; ++c) {
        if (!(out[0].at<bf16>(r, c) == to_bf16(out[1].at<float>(r, c)))) {
          return fmt::format("[{}][{}]: the bf16 result is not the float32 result rounded", r, c);
        }
      }
    }
    return {};
  };
  return op;
}

const char* kind_name(WeightKind kind) {
  return kind == WeightKind::bf16 ? "bf16" : kind == WeightKind::fp8_tile ? "fp8" : "fp4";
}

std::shared_ptr<Data> make(Random& random, WeightKind kind, int64_t tokens, int64_t n, int64_t k, int scale_low,
                           int scale_high, int x_low, int x_high, int64_t groups = 1) {
  auto data = std::make_shared<Data>();
  data->tokens = tokens;
  data->groups = groups;
  data->columns = k * groups;
  data->x = random.wild_rows(tokens, data->columns, x_low, x_high);
  data->w = random_weight(random, kind, n, k, scale_low, scale_high);
  return data;
}

}  // namespace

std::vector<OpCase> linear_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    WeightKind kind;
    int64_t tokens, n, k;
  };
  constexpr auto kBf16 = WeightKind::bf16;
  constexpr auto kFp8 = WeightKind::fp8_tile;
  constexpr auto kFp4 = WeightKind::fp4_row;
  const Shape shapes[] = {
      {kFp8, 1, 128, 128}, {kFp8, 2, 80, 64},     {kFp8, 3, 96, 160},   {kFp8, 5, 33, 32},    {kFp8, 17, 256, 256},
      {kFp8, 64, 70, 128}, {kFp8, 1, 1280, 5120}, {kFp4, 1, 32, 32},    {kFp4, 2, 65, 96},    {kFp4, 3, 160, 256},
      {kFp4, 17, 1, 160},  {kFp4, 64, 48, 128},   {kFp4, 1, 256, 2304}, {kFp4, 5, 31, 512},   {kBf16, 1, 33, 40},
      {kBf16, 2, 8, 48},   {kBf16, 3, 1, 296},    {kBf16, 5, 16, 7},    {kBf16, 17, 64, 160}, {kBf16, 64, 19, 1},
      {kBf16, 1, 7, 5376}, {kBf16, 3, 129, 31},   {kBf16, 65, 12, 64},
  };
  for (const Shape& s : shapes) {
    const std::string shape = fmt::format("{}_t{}_n{}_k{}", kind_name(s.kind), s.tokens, s.n, s.k);
    Random random(shape);
    cases.push_back(linear_case(shape, make(random, s.kind, s.tokens, s.n, s.k, 117, 124, -4, 4), false));
    if (s.n * s.k > 200000) continue;
    // All sums exact: any order must give the same bits.
    auto exact = std::make_shared<Data>();
    exact->tokens = s.tokens;
    exact->columns = s.k;
    exact->x = random.integers(s.tokens * s.k, 15);
    exact->w = integer_weight(random, s.kind, s.n, s.k);
    cases.push_back(linear_case(shape + "_integers", exact, true));
  }
  {  // not-a-number codes of either sign: their outputs are not numbers, all others as ever
    Random random("not a number");
    auto data = make(random, kFp8, 5, 70, 96, 117, 124, -4, 4);
    data->w.codes[3 * 96 + 5] = 0x7F, data->w.codes[69 * 96 + 95] = 0xFF;
    cases.push_back(linear_case("fp8_nan", data, false));
  }
  constexpr double kFlushed = 0;  // denormal products and weights become zero: within the bound, but seldom equal
  for (const WeightKind kind : {kFp8, kFp4, kBf16}) {
    Random random(std::string("extremes ") + kind_name(kind));
    // Magnitudes over the whole exponent range that sums can have without overflow, down to products that are denormal.
    cases.push_back(linear_case(fmt::format("{}_large", kind_name(kind)),
                                make(random, kind, 5, 48, 96, 127 + 20, 127 + 50, 20, 55), false));
    cases.push_back(linear_case(fmt::format("{}_small", kind_name(kind)),
                                make(random, kind, 5, 48, 96, 127 - 70, 127 - 50, -80, -60), false, kFlushed));
    cases.push_back(linear_case(fmt::format("{}_mixed", kind_name(kind)),
                                make(random, kind, 17, 48, 96, 127 - 50, 127 + 50, -60, 60), false));
    if (kind != kBf16) {  // the smallest and largest scale bytes; x keeps the products in range
      cases.push_back(linear_case(fmt::format("{}_scale_bytes_low", kind_name(kind)),
                                  make(random, kind, 3, 64, 64, 0, 4, 60, 90), false, kFlushed));
      cases.push_back(linear_case(fmt::format("{}_scale_bytes_high", kind_name(kind)),
                                  make(random, kind, 3, 64, 64, 240, 243, -90, -60), false));
    }
  }
  return cases;
}

std::vector<OpCase> grouped_linear_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    WeightKind kind;
    int64_t tokens, groups, n, k;
  };
  const Shape shapes[] = {
      {WeightKind::fp8_tile, 1, 2, 96, 384},  {WeightKind::fp8_tile, 17, 2, 64, 128},
      {WeightKind::fp8_tile, 3, 8, 128, 512}, {WeightKind::fp8_tile, 5, 1, 40, 96},
      {WeightKind::bf16, 2, 3, 24, 160},      {WeightKind::bf16, 64, 2, 33, 64},
      {WeightKind::fp8_tile, 65, 3, 32, 32},  {WeightKind::fp8_tile, 3, 2, 48, 96},
  };
  for (const Shape& s : shapes) {
    const std::string name = fmt::format("{}_t{}_g{}_n{}_k{}", kind_name(s.kind), s.tokens, s.groups, s.n, s.k);
    Random random(name);
    auto data = make(random, s.kind, s.tokens, s.groups * s.n, s.k, 117, 124, -4, 4, s.groups);
    measure(*data);
    OpCase op;
    op.op = "grouped_linear";
    op.name = name;
    op.units = s.tokens;
    op.make = [data] {
      return Outputs{Output("out", Kind::bf16, data->tokens, data->w.matrix.n, Output::Compare::bounded)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      const Rows<const bf16> x{data->x.data() + begin * data->columns, end - begin, data->columns, data->columns};
      kernels.grouped_linear(context, {x, data->w.matrix, data->groups, out[0].rows_from<bf16>(begin, end - begin)});
    };
    op.bound = [data](const Output&, int64_t row, int64_t col, double) {
      return data->magnitude[static_cast<size_t>(row * data->w.matrix.n + col)];
    };
    // One group at a time by `linear`, in the same bits.
    op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) -> std::string {
      const int64_t n = data->w.matrix.n / data->groups, k = data->w.matrix.k;
      if (data->w.matrix.kind == WeightKind::fp8_tile && n % 32 != 0) return {};  // a tile belongs to two groups
      for (int64_t g = 0; g < data->groups; ++g) {
        Matrix part = data->w.matrix;
        const int64_t element = part.kind == WeightKind::bf16 ? 2 : 1;
        part.n = n;
        part.data = static_cast<const std::byte*>(part.data) + g * n * k * element;
        if (part.kind == WeightKind::fp8_tile) part.scale += g * n / 32 * (k / 32);
        Output one("group", Kind::bf16, data->tokens, n, Output::Compare::exact);
        kernels.linear(context, {{data->x.data() + g * k, data->tokens, k, data->columns}, part, one.all<bf16>(), {}});
        for (int64_t t = 0; t < data->tokens; ++t) {
          if (std::memcmp(one.row(t), out[0].row(t) + g * n * 2, static_cast<size_t>(n * 2)) != 0) {
            return fmt::format("group {} of token {} differs from the same product by linear", g, t);
          }
        }
      }
      return {};
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
