#include <cmath>
#include <memory>

#include "backend/reference/reference.h"
#include "op_case.h"

// The seam between sublayers: both halves apart, and their composition.
namespace deepinfer::optest {
namespace {

struct Data {
  int64_t tokens, d, iterations = 20;
  std::vector<bf16> x, y, norm_weight;
  std::vector<float> post, comb, fn, base, scale, pre_in;
  float norm_eps = 1e-20f, hc_eps = 1e-6f;
};

std::shared_ptr<Data> make_data(const std::string& name, int64_t tokens, int64_t d, bool wild, float spread) {
  Random random(name);
  auto data = std::make_shared<Data>();
  data->tokens = tokens;
  data->d = d;
  data->x = wild ? random.wild_rows(tokens, 4 * d, -30, 30) : random.bf16s(tokens * 4 * d, 1);
  data->y = wild ? random.wild_rows(tokens, d, -30, 30) : random.bf16s(tokens * d, 1);
  data->norm_weight = random.bf16s(d, 0.5);
  for (int64_t i = 0; i < tokens * 4; ++i) {
    data->post.push_back(static_cast<float>(random.uniform(0, 2)));
    data->pre_in.push_back(static_cast<float>(random.uniform(0, 1)));
  }
  for (int64_t i = 0; i < tokens * 16; ++i) data->comb.push_back(static_cast<float>(random.uniform(0, 1)));
  data->fn = random.floats(kHcMixes * 4 * d, 1 / std::sqrt(static_cast<double>(4 * d)));
  data->base = random.floats(kHcMixes, 1);
  data->scale = {0.7f * spread, 1.3f * spread, 1.0f * spread};
  return data;
}

double magnitude(const std::vector<bf16>& v, int64_t i) {
  return std::fabs(static_cast<double>(to_float(v[static_cast<size_t>(i)])));
}

// Arguments for units [begin, end), with X copied into `x`.
HcSeamArgs base_args(const Data& data, int64_t begin, int64_t end, Output& x) {
  HcSeamArgs args;
  args.x = x.rows_from<bf16>(begin, end - begin);
  args.d = data.d;
  args.norm_eps = data.norm_eps;
  args.hc_eps = data.hc_eps;
  for (int64_t t = begin; t < end; ++t) std::copy_n(data.x.data() + t * 4 * data.d, 4 * data.d, args.x.row(t - begin));
  return args;
}
void add_leave(const Data& data, int64_t begin, int64_t end, HcSeamArgs& args) {
  args.y = {data.y.data() + begin * data.d, end - begin, data.d, data.d};
  // The contract names them const-free; leave only reads.
  args.left.post = const_cast<float*>(data.post.data()) + begin * 4;
  args.left.comb = const_cast<float*>(data.comb.data()) + begin * 16;
}
void add_collapse(const Data& data, int64_t begin, HcSeamArgs& args) {
  args.pre_in = data.pre_in.data() + begin * 4;
  args.norm_weight = data.norm_weight.data();
}
void add_enter(const Data& data, HcSeamArgs& args) {
  args.fn = data.fn.data();
  args.base = data.base.data();
  args.scale = data.scale.data();
  args.iterations = data.iterations;
}

OpCase leave_case(const std::string& name, std::shared_ptr<Data> data) {
  OpCase op;
  op.op = "hc_seam";
  op.name = name;
  op.units = data->tokens;
  op.make = [data] {
    return Outputs{Output("x", Kind::bf16, data->tokens, 4 * data->d, Output::Compare::bounded),
                   Output("tap", Kind::bf16, data->tokens, data->d, Output::Compare::related)};
  };
  op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
    HcSeamArgs args = base_args(*data, begin, end, out[0]);
    add_leave(*data, begin, end, args);
    args.tap = out[1].rows_from<bf16>(begin, end - begin);
    kernels.hc_seam(context, args);
  };
  // Five products, each rounded, and four sums: 2^-24 of the sum of magnitudes for each.
  op.bound = [data](const Output&, int64_t t, int64_t col, double) {
    const int64_t j = col / data->d, e = col % data->d;
    double sum = static_cast<double>(data->post[static_cast<size_t>(t * 4 + j)]) * magnitude(data->y, t * data->d + e);
    for (int64_t i = 0; i < 4; ++i) {
      sum += static_cast<double>(data->comb[static_cast<size_t>(t * 16 + i * 4 + j)]) *
             magnitude(data->x, (t * 4 + i) * data->d + e);
    }
    return sum * 9 * 0x1p-24;
  };
  // The tap is the mean of the copies as they are after leaving; a call without the first half gives the same.
  op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) -> std::string {
    Output x = out[0];
    Output tap("tap alone", Kind::bf16, data->tokens, data->d, Output::Compare::exact);
    HcSeamArgs args;
    args.x = x.all<bf16>();
    args.d = data->d;
    args.tap = tap.all<bf16>();
    kernels.hc_seam(context, args);
    std::string text = first_difference(tap, out[1], 0, data->tokens);
    if (text.empty()) text = first_difference(x, out[0], 0, data->tokens);
    Closeness close;
    for (int64_t t = 0; t < data->tokens && text.empty(); ++t) {
      for (int64_t e = 0; e < data->d; ++e) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < 4; ++i)
          sum += x.value(t, i * data->d + e), size += std::fabs(x.value(t, i * data->d + e));
        const double want = static_cast<double>(round_bf16(static_cast<float>(sum / 4)));
        close.add("tap", t, e, tap.value(t, e), want, bf16_ulp(want) + size * 0x1p-24);
      }
    }
    return text.empty() ? close.verdict() : text;
  };
  return op;
}

enum { kX, kMixes, kPre, kPost, kComb, kCollapsed, kH, kHq };  // outputs of enter_case

// pre, post and comb from the table's own mixes: within 1e-6, as the golden vectors ask.
std::string check_split(const Data& data, const Outputs& out) {
  std::vector<float> pre(4), post(4), comb(16);
  HcSeamArgs args;
  add_enter(data, args);
  args.hc_eps = data.hc_eps;
  args.entered = {pre.data(), post.data(), comb.data()};
  Closeness close;
  close.min_equal = 0;
  for (int64_t t = 0; t < data.tokens; ++t) {
    double m[kHcMixes];
    for (int64_t k = 0; k < kHcMixes; ++k) m[k] = out[kMixes].value(t, k);
    reference::split_mixes(args, 0, m);
    for (int64_t i = 0; i < 16; ++i) {
      const auto add = [&](size_t output, const std::vector<float>& want) {
        if (i >= out[output].cols) return;
        close.add(out[output].name, t, i, out[output].value(t, i), static_cast<double>(want[static_cast<size_t>(i)]),
                  1e-6);
      };
      add(kPre, pre), add(kPost, post), add(kComb, comb);
    }
  }
  return close.verdict();
}

OpCase enter_case(const std::string& name, std::shared_ptr<Data> data) {
  OpCase op;
  op.op = "hc_seam";
  op.name = name;
  op.units = data->tokens;
  op.make = [data] {
    const int64_t t = data->tokens, d = data->d;
    return Outputs{Output("x", Kind::bf16, t, 4 * d, Output::Compare::exact),
                   float_output("mixes", t, kHcMixes),
                   Output::dense("pre", Kind::f32, t, 4, Output::Compare::related),
                   Output::dense("post", Kind::f32, t, 4, Output::Compare::related),
                   Output::dense("comb", Kind::f32, t, 16, Output::Compare::related),
                   Output("collapsed", Kind::bf16, t, d, Output::Compare::bounded),
                   Output("h", Kind::bf16, t, d, Output::Compare::related),
                   Output("hq", Kind::bf16, t, d, Output::Compare::related)};
  };
  op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
    const int64_t count = end - begin;
    HcSeamArgs args = base_args(*data, begin, end, out[kX]);
    add_enter(*data, args);
    add_collapse(*data, begin, args);
    args.mixes = out[kMixes].rows_from<float>(begin, count);
    args.entered = {out[kPre].rows_from<float>(begin, 0).data, out[kPost].rows_from<float>(begin, 0).data,
                    out[kComb].rows_from<float>(begin, 0).data};
    args.collapsed = out[kCollapsed].rows_from<bf16>(begin, count);
    args.h = out[kH].rows_from<bf16>(begin, count);
    args.hq = out[kHq].rows_from<bf16>(begin, count);
    kernels.hc_seam(context, args);
  };
  // Bounds of m: 4d / 16 + 4 additions and the product's rounding in the dot, as many (halved) in the norm.
  auto mix_bound = std::make_shared<std::vector<double>>();
  for (int64_t t = 0; t < data->tokens; ++t) {
    double square = 0;
    for (int64_t i = 0; i < 4 * data->d; ++i)
      square += magnitude(data->x, t * 4 * data->d + i) * magnitude(data->x, t * 4 * data->d + i);
    const double r = 1 / std::sqrt(square / static_cast<double>(4 * data->d) + static_cast<double>(data->norm_eps));
    for (int64_t k = 0; k < kHcMixes; ++k) {
      double sum = 0;
      for (int64_t i = 0; i < 4 * data->d; ++i) {
        sum += std::fabs(static_cast<double>(data->fn[static_cast<size_t>(k * 4 * data->d + i)])) *
               magnitude(data->x, t * 4 * data->d + i);
      }
      mix_bound->push_back(sum * r * (static_cast<double>(data->d) * 3 / 8 + 12) * 0x1p-24);
    }
  }
  op.bound = [data, mix_bound](const Output& output, int64_t t, int64_t col, double) {
    if (output.name == "collapsed") {
      double sum = 0;
      for (int64_t i = 0; i < 4; ++i) {
        sum += static_cast<double>(data->pre_in[static_cast<size_t>(t * 4 + i)]) *
               magnitude(data->x, (t * 4 + i) * data->d + col);
      }
      return sum * 8 * 0x1p-24;
    }
    return (*mix_bound)[static_cast<size_t>(t * kHcMixes + col)];
  };
  op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) -> std::string {
    Outputs copy = out;
    Output h("h", Kind::bf16, data->tokens, data->d, Output::Compare::exact);
    kernels.rms_norm(context,
                     {copy[kCollapsed].all<const bf16>(), data->norm_weight.data(), data->norm_eps, h.all<bf16>(), {}});
    std::string text = first_difference(h, out[kH], 0, data->tokens);
    Output hq("hq", Kind::bf16, data->tokens, data->d, Output::Compare::exact);
    reference_kernels().act_quant(context, {h.all<const bf16>(), hq.all<bf16>()});
    if (text.empty()) text = first_difference(hq, out[kHq], 0, data->tokens);
    return text.empty() ? check_split(*data, out) : text;
  };
  return op;
}

// Leave and enter in one call: the same bits as in two calls, and as without probes.
OpCase seam_case(const std::string& name, std::shared_ptr<Data> data) {
  OpCase op = enter_case(name, data);
  op.bound = nullptr;
  const auto make = op.make;
  op.make = [make] {
    Outputs out = make();
    for (Output& output : out) output.compare = Output::Compare::related;
    return out;
  };
  const auto enter = [data](const Kernels& kernels, Context& context, HcSeamArgs args, int64_t begin, int64_t end,
                            Outputs& out) {
    const int64_t count = end - begin;
    add_enter(*data, args);
    add_collapse(*data, begin, args);
    args.entered = {out[kPre].rows_from<float>(begin, 0).data, out[kPost].rows_from<float>(begin, 0).data,
                    out[kComb].rows_from<float>(begin, 0).data};
    args.h = out[kH].rows_from<bf16>(begin, count);
    args.hq = out[kHq].rows_from<bf16>(begin, count);
    kernels.hc_seam(context, args);
  };
  op.run = [data, enter](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
    HcSeamArgs args = base_args(*data, begin, end, out[kX]);
    add_leave(*data, begin, end, args);
    enter(kernels, context, args, begin, end, out);
  };
  op.check = [data, enter, make](const Kernels& kernels, Context& context, const Outputs& out) -> std::string {
    Outputs two = make();
    HcSeamArgs args = base_args(*data, 0, data->tokens, two[kX]);
    HcSeamArgs leave = args;
    add_leave(*data, 0, data->tokens, leave);
    kernels.hc_seam(context, leave);
    args.mixes = two[kMixes].all<float>();
    args.collapsed = two[kCollapsed].all<bf16>();
    enter(kernels, context, args, 0, data->tokens, two);
    std::string text;
    for (const int i : {kX, kPre, kPost, kComb, kH, kHq}) {
      if (text.empty())
        text = first_difference(two[static_cast<size_t>(i)], out[static_cast<size_t>(i)], 0, data->tokens);
    }
    return text;
  };
  return op;
}

// hc_pre and the norm alone, for the head; with and without the quantised copy.
OpCase collapse_case(const std::string& name, std::shared_ptr<Data> data) {
  OpCase op = enter_case(name, data);
  op.make = [data] {
    return Outputs{Output("x", Kind::bf16, data->tokens, 4 * data->d, Output::Compare::exact),
                   Output("collapsed", Kind::bf16, data->tokens, data->d, Output::Compare::bounded),
                   Output("h", Kind::bf16, data->tokens, data->d, Output::Compare::related)};
  };
  op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
    HcSeamArgs args = base_args(*data, begin, end, out[0]);
    add_collapse(*data, begin, args);
    args.collapsed = out[1].rows_from<bf16>(begin, end - begin);
    args.h = out[2].rows_from<bf16>(begin, end - begin);
    kernels.hc_seam(context, args);
  };
  op.check = [data](const Kernels& kernels, Context& context, const Outputs& out) {
    Output collapsed = out[1];
    Output h("h", Kind::bf16, data->tokens, data->d, Output::Compare::exact);
    kernels.rms_norm(context,
                     {collapsed.all<const bf16>(), data->norm_weight.data(), data->norm_eps, h.all<bf16>(), {}});
    return first_difference(h, out[2], 0, data->tokens);
  };
  return op;
}

}  // namespace

std::vector<OpCase> hc_seam_cases() {
  std::vector<OpCase> cases;
  for (const auto& [tokens, d] :
       {std::pair<int64_t, int64_t>{1, 128}, {2, 160}, {17, 96}, {64, 256}, {3, 5120}, {5, 64}}) {
    for (const bool wild : {false, true}) {
      if (wild && d > 1000) continue;
      const std::string name = fmt::format("t{}_d{}{}", tokens, d, wild ? "_wild" : "");
      cases.push_back(leave_case("leave_" + name, make_data(name, tokens, d, wild, 1)));
      cases.push_back(enter_case("enter_" + name, make_data(name, tokens, d, wild, 1)));
      cases.push_back(seam_case("seam_" + name, make_data(name, tokens, d, wild, 1)));
      cases.push_back(collapse_case("collapse_" + name, make_data(name, tokens, d, wild, 1)));
    }
  }
  // Sharp mixes (one destination takes nearly all), another eps and round count, and one round only.
  for (const int64_t iterations : {1, 7, 20}) {
    auto data = make_data(fmt::format("sharp {}", iterations), 9, 96, false, 12);
    data->iterations = iterations;
    data->hc_eps = 1e-4f;
    data->norm_eps = 1e-6f;
    cases.push_back(enter_case(fmt::format("enter_sharp_{}", iterations), data));
  }
  return cases;
}

}  // namespace deepinfer::optest
