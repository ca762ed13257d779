#include <algorithm>
#include <cmath>
#include <memory>

#include "op_case.h"

namespace deepinfer::optest {
namespace {

struct GateData {
  int64_t tokens, experts, k;
  std::vector<float> logits, bias, bias_vl;
  std::vector<uint8_t> image;
  float route_scale;
};

}  // namespace

// The gate: softplus, root, sum and division in float32 against float64, 2e-6 as the golden vectors allow (times route_scale / 1.5).
std::vector<OpCase> moe_gate_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    const char* name;
    int64_t tokens, experts, k;
    double spread;
    bool images, ties;
  };
  for (const Shape& s : {Shape{"tiny", 17, 16, 3, 2, false, false},
                         {"odd", 3, 7, 2, 2, true, false},
                         {"released", 64, 384, 6, 3, true, false},
                         {"all_experts", 2, 5, 5, 1, false, false},
                         {"one_expert", 5, 8, 1, 2, false, false},
                         {"wide_range", 9, 16, 3, 25, false, false},
                         {"ties", 8, 16, 3, 0, true, true}}) {
    Random random(s.name);
    auto data = std::make_shared<GateData>();
    data->tokens = s.tokens, data->experts = s.experts, data->k = s.k;
    data->logits = random.floats(s.tokens * s.experts, s.spread);
    for (float& x : data->logits) x = std::max(x, -70.0f);  // below, the score is a denormal
    data->bias = random.floats(s.experts, s.ties ? 0 : 0.3);
    data->bias_vl = random.floats(s.experts, 0.3);
    data->route_scale = s.experts == 7 ? 2.5f : 1.5f;
    for (int64_t t = 0; t < s.tokens && s.images; ++t)
      data->image.push_back(static_cast<uint8_t>(t % 3 == 1 ? 1 + t : 0));
    OpCase op;
    op.op = "moe_gate";
    op.name = s.name;
    op.units = s.tokens;
    op.make = [data] {
      return Outputs{Output("index", Kind::i32, data->tokens, data->k, Output::Compare::exact),
                     float_output("weight", data->tokens, data->k)};
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      kernels.moe_gate(context,
                       {{data->logits.data() + begin * data->experts, end - begin, data->experts, data->experts},
                        data->bias.data(),
                        data->bias_vl.data(),
                        data->image.empty() ? nullptr : data->image.data() + begin,
                        data->route_scale,
                        out[0].rows_from<int32_t>(begin, end - begin),
                        out[1].rows_from<float>(begin, end - begin)});
    };
    op.bound = [data](const Output&, int64_t, int64_t, double) {
      return 2e-6 * static_cast<double>(data->route_scale) / 1.5;
    };
    // Equal scores: the lowest experts.
    op.check = [data, ties = s.ties](const Kernels&, Context&, const Outputs& out) -> std::string {
      for (int64_t t = 0; t < data->tokens; ++t) {
        for (int32_t i = 0; i < data->k; ++i) {
          const int32_t e = out[0].at<int32_t>(t, i);
          if (e < 0 || e >= data->experts || (i > 0 && e <= out[0].at<int32_t>(t, i - 1)))
            return fmt::format("token {}: not ascending", t);
          const bool image = !data->image.empty() && data->image[static_cast<size_t>(t)] != 0;
          if (ties && !image && e != i) return fmt::format("token {}: a tie did not go to the lowest expert", t);
        }
      }
      return {};
    };
    cases.push_back(op);
  }
  return cases;
}

namespace {

struct ExpertData {
  int64_t tokens, d, width, experts, k;
  float limit;
  bool exact;
  std::vector<Weight> weights;  // w1, w2, w3 of each expert, the shared one last
  std::vector<ExpertWeights> table;
  std::vector<bf16> xq;
  std::vector<int32_t> index;
  std::vector<float> weight;
};

std::string check_output(const ExpertData& data, Context& context, const Outputs& out) {
  // y of every expert by the reference, from the op's own activations; then the sum in ascending order.
  Closeness close;
  const Kernels& reference = reference_kernels();
  for (int64_t t = 0; t < data.tokens; ++t) {
    std::vector<float> sum(static_cast<size_t>(data.d), 0.0f);
    std::vector<double> doubt(static_cast<size_t>(data.d), 0.0);
    for (int64_t i = 0; i <= data.k; ++i) {
      std::vector<bf16> hidden(static_cast<size_t>(data.width)), y(static_cast<size_t>(data.d));
      std::memcpy(hidden.data(), out[1].row(t) + i * data.width * 2, hidden.size() * 2);
      const Rows<bf16> h = rows_of(hidden.data(), 1, data.width);
      reference.act_quant(context, {h, h});
      const ExpertWeights& expert =
          data.table[static_cast<size_t>(i < data.k ? data.index[static_cast<size_t>(t * data.k + i)] : data.experts)];
      reference.linear(context, {h, expert.w2, rows_of(y.data(), 1, data.d), {}});
      for (size_t c = 0; c < y.size(); ++c) {
        sum[c] = sum[c] + to_float(y[c]);
        doubt[c] += bf16_ulp(static_cast<double>(to_float(y[c])));
      }
    }
    for (int64_t c = 0; c < data.d; ++c) {
      const double want = static_cast<double>(round_bf16(sum[static_cast<size_t>(c)]));
      close.add("out given the activations", t, c, out[0].value(t, c), want,
                bf16_ulp(want) + doubt[static_cast<size_t>(c)]);
    }
  }
  if (data.exact && close.equal != close.total)
    return fmt::format("{} elements differ where all sums are exact", close.total - close.equal);
  return close.verdict();
}

}  // namespace

std::vector<OpCase> moe_experts_cases() {
  std::vector<OpCase> cases;
  struct Shape {
    const char* name;
    int64_t tokens, d, width, experts, k;
    float limit;
    WeightKind routed, shared;
    bool exact = false, same_experts = false;
  };
  constexpr auto kBf16 = WeightKind::bf16;
  constexpr auto kFp8 = WeightKind::fp8_tile;
  constexpr auto kFp4 = WeightKind::fp4_row;
  for (const Shape& s : {Shape{"tiny", 17, 256, 160, 16, 3, 10, kFp4, kFp8},
                         {"odd", 3, 160, 96, 7, 2, 0.5f, kFp4, kFp8},
                         {"one_token", 1, 128, 64, 8, 3, 10, kFp4, kFp8},
                         {"two_tokens_all_same", 2, 128, 64, 4, 2, 10, kFp4, kFp8, false, true},
                         {"many_tokens_all_same", 64, 64, 32, 9, 3, 10, kFp4, kFp8, false, true},
                         {"integers", 5, 64, 96, 6, 3, 10, kFp4, kFp8, true},
                         {"integers_bf16", 5, 64, 32, 6, 1, 0.5f, kBf16, kBf16, true},
                         {"fp8", 65, 32, 32, 5, 4, 10, kFp8, kFp8}}) {
    Random random(s.name);
    auto data = std::make_shared<ExpertData>();
    data->tokens = s.tokens, data->d = s.d, data->width = s.width, data->experts = s.experts, data->k = s.k;
    data->limit = s.limit, data->exact = s.exact;
    for (int64_t e = 0; e <= s.experts; ++e) {
      const WeightKind kind = e < s.experts ? s.routed : s.shared;
      for (int i = 0; i < 3; ++i) {
        const int64_t n = i == 1 ? s.d : s.width, k = i == 1 ? s.width : s.d;
        const int level = kind == kFp8 ? 117 : 122;  // values of about 0.1: E4M3 codes are larger than E2M1 ones
        data->weights.push_back(s.exact ? integer_weight(random, kind, n, k)
                                        : random_weight(random, kind, n, k, level, level + 2));
      }
    }
    for (int64_t e = 0; e <= s.experts; ++e) {
      const Weight* w = &data->weights[static_cast<size_t>(3 * e)];
      data->table.push_back({w[0].matrix, w[1].matrix, w[2].matrix});
    }
    data->xq = s.exact ? random.integers(s.tokens * s.d, 2) : random.wild_rows(s.tokens, s.d, -3, 2);
    const Rows<bf16> x = rows_of(data->xq.data(), s.tokens, s.d);
    Machine machine(1);
    reference_kernels().act_quant(machine.context(), {x, x});
    for (int64_t t = 0; t < s.tokens; ++t) {
      std::vector<int32_t> chosen;
      for (int32_t e = 0; static_cast<int64_t>(chosen.size()) < s.k; ++e) {
        const int64_t left = s.experts - e, open = s.k - static_cast<int64_t>(chosen.size());
        if (s.same_experts ? e > 0 || left == open : random.below(left) < open) chosen.push_back(e);
      }
      data->index.insert(data->index.end(), chosen.begin(), chosen.end());
      for (int64_t i = 0; i < s.k; ++i)
        data->weight.push_back(static_cast<float>(s.exact ? 0.5 : random.uniform(0.05, 1.2)));
    }
    OpCase op;
    op.op = "moe_experts";
    op.name = s.name;
    op.units = s.tokens;
    op.make = [data] {
      Outputs out{Output("out", Kind::bf16, data->tokens, data->d, Output::Compare::related),
                  Output("hidden", Kind::bf16, data->tokens, (data->k + 1) * data->width, Output::Compare::bounded),
                  Output("out without probe", Kind::bf16, data->tokens, data->d, Output::Compare::related)};
      return out;
    };
    op.run = [data](const Kernels& kernels, Context& context, int64_t begin, int64_t end, Outputs& out) {
      MoeExpertsArgs args;
      args.xq = {data->xq.data() + begin * data->d, end - begin, data->d, data->d};
      args.index = {data->index.data() + begin * data->k, end - begin, data->k, data->k};
      args.weight = {data->weight.data() + begin * data->k, end - begin, data->k, data->k};
      args.experts = data->table.data(), args.expert_count = data->experts,
      args.shared = data->table.data() + data->experts;
      args.limit = data->limit;
      args.out = out[2].rows_from<bf16>(begin, end - begin);
      kernels.moe_experts(context, args);
      args.out = out[0].rows_from<bf16>(begin, end - begin);
      args.hidden = out[1].rows_from<bf16>(begin, end - begin);
      kernels.moe_experts(context, args);
    };
    // Exact projections: only the exponential's last place. Otherwise g or u may round the other way, 2^-8 of it, and t follows u
    // linearly and g by at most (2 + |g|) times as much, |g| being at most some 20 here. Where exp(-g) overflows, t is below 2^-112 and 0.
    op.bound = [data](const Output&, int64_t, int64_t, double want) {
      return 0x1p-112 + (data->exact ? 0.0 : std::fabs(want) * 23 * 0x1p-8);
    };
    op.check = [data](const Kernels&, Context& context, const Outputs& out) {
      const std::string text = first_difference(out[0], out[2], 0, data->tokens);
      return !text.empty() ? text : check_output(*data, context, out);
    };
    cases.push_back(op);
  }
  return cases;
}

}  // namespace deepinfer::optest
