#include "backend/ops/moe.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

double softplus64(double x) { return x > 20 ? x : std::log1p(std::exp(x)); }

// w . x, one rounding to bf16.
std::vector<bf16> project(const Matrix& w, const bf16* x) {
  std::vector<bf16> out(static_cast<size_t>(w.n));
  for (int64_t n = 0; n < w.n; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < w.k; ++k) sum += as_double(x[k]) * weight_value(w, n, k);
    out[static_cast<size_t>(n)] = round_to_bf16(sum);
  }
  return out;
}

// bf16(t) of one expert; `weight` is 1 for the shared one.
std::vector<bf16> hidden_of(const ExpertWeights& expert, const bf16* x, double limit, double weight) {
  std::vector<bf16> hidden = project(expert.w1, x);
  const std::vector<bf16> up = project(expert.w3, x);
  for (size_t i = 0; i < hidden.size(); ++i) {
    const double g = std::min(as_double(hidden[i]), limit);
    const double u = std::clamp(as_double(up[i]), -limit, limit);
    hidden[i] = round_to_bf16(weight * (g * sigmoid64(g) * u));
  }
  return hidden;
}

}  // namespace

void moe_gate(Context&, const MoeGateArgs& args) {
  const int64_t experts = args.logits.cols, k = args.index.cols;
  for (int64_t t = 0; t < args.logits.rows; ++t) {
    const float* bias = args.image != nullptr && args.image[t] != 0 ? args.bias_vl : args.bias;
    std::vector<float> s(static_cast<size_t>(experts)), biased(static_cast<size_t>(experts));
    for (size_t e = 0; e < s.size(); ++e) {
      s[e] = static_cast<float>(std::sqrt(softplus64(static_cast<double>(args.logits.row(t)[e]))));
      biased[e] = s[e] + bias[e];
    }
    std::vector<int32_t> order(s.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return biased[static_cast<size_t>(a)] > biased[static_cast<size_t>(b)];
    });
    order.resize(static_cast<size_t>(k));
    std::sort(order.begin(), order.end());
    double sum = 1e-20;
    for (const int32_t e : order) sum += static_cast<double>(s[static_cast<size_t>(e)]);
    for (int64_t i = 0; i < k; ++i) {
      const int32_t e = order[static_cast<size_t>(i)];
      args.index.row(t)[i] = e;
      args.weight.row(t)[i] = static_cast<float>(static_cast<double>(s[static_cast<size_t>(e)]) / sum *
                                                 static_cast<double>(args.route_scale));
    }
  }
}

void moe_experts(Context& context, const MoeExpertsArgs& args) {
  const int64_t k = args.index.cols;
  for (int64_t t = 0; t < args.xq.rows; ++t) {
    std::vector<double> sum(static_cast<size_t>(args.out.cols), 0.0);
    for (int64_t i = 0; i <= k; ++i) {
      const ExpertWeights& expert = i < k ? args.experts[args.index.row(t)[i]] : *args.shared;
      const double weight = i < k ? static_cast<double>(args.weight.row(t)[i]) : 1.0;
      std::vector<bf16> hidden = hidden_of(expert, args.xq.row(t), static_cast<double>(args.limit), weight);
      const auto width = static_cast<int64_t>(hidden.size());
      if (args.hidden.data != nullptr) std::copy(hidden.begin(), hidden.end(), args.hidden.row(t) + i * width);
      act_quant(context, {rows_of<const bf16>(hidden.data(), 1, width), rows_of(hidden.data(), 1, width)});
      const std::vector<bf16> y = project(expert.w2, hidden.data());
      for (size_t c = 0; c < y.size(); ++c) sum[c] += as_double(y[c]);
    }
    for (size_t c = 0; c < sum.size(); ++c) args.out.row(t)[c] = round_to_bf16(sum[c]);
  }
}

}  // namespace deepinfer::reference
