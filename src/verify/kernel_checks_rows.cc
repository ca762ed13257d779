// Norms, rotation, the gate, expert activations and Sinkhorn.
#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "model/model.h"
#include "verify/kernel_vectors.h"

namespace deepinfer {
namespace {

int64_t round_up(int64_t value, int64_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// What the frequencies of a named set are made from; the files hold only the results.
struct FrequencySet {
  double theta;
  std::optional<RopeScaling> scaling;
};
const std::map<std::string, FrequencySet>& frequency_sets() {
  static const std::map<std::string, FrequencySet> sets = {
      {"released_window", {10000, {}}}, {"released_compressed", {160000, RopeScaling{16, 32, 1, 65536}}},
      {"nano_window", {10000, {}}},     {"nano_compressed", {160000, RopeScaling{16, 32, 1, 64}}},
      {"odd_window", {5000, {}}},       {"odd_compressed", {50000, RopeScaling{10, 4, 1, 128}}},
      {"wide_window", {10000, {}}},     {"wide_compressed", {160000, RopeScaling{16, 32, 1, 1024}}},
  };
  return sets;
}

}  // namespace

Status check_sinkhorn(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  // X one-hot of value 16 in 256 places: its mean square is 1, so with norm_eps 0 the norm drops out, and fn / 16 gives back the mixes.
  constexpr int64_t kD = 64, kBatch = 4 * kD;
  for (const std::string& prefix : file.prefixes(".mixes")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector mixes, scale, base, pre, post, comb, iters_eps;
    DI_RETURN_IF_ERROR(file.take(prefix + "mixes", DType::f32, {-1, kHcMixes}, mixes));
    const int64_t rows = mixes.dim(0);
    DI_RETURN_IF_ERROR(file.take(prefix + "scale", DType::f32, {3}, scale));
    DI_RETURN_IF_ERROR(file.take(prefix + "base", DType::f32, {kHcMixes}, base));
    DI_RETURN_IF_ERROR(file.take(prefix + "pre", DType::f32, {rows, kHcMult}, pre));
    DI_RETURN_IF_ERROR(file.take(prefix + "post", DType::f32, {rows, kHcMult}, post));
    DI_RETURN_IF_ERROR(file.take(prefix + "comb", DType::f32, {rows, kHcMult, kHcMult}, comb));
    DI_RETURN_IF_ERROR(file.take(prefix + "iters_eps", DType::f32, {2}, iters_eps));
    const float iterations = iters_eps.as<float>()[0];
    if (!(iterations >= 1 && iterations <= 1000))
      return invalid("{}: '{}iters_eps' asks for {} rounds", file.stem(), prefix, iterations);
    std::vector<float> got_pre(static_cast<size_t>(rows * 4)), got_post(got_pre.size()), got_comb(got_pre.size() * 4);
    for (int64_t first = 0; first < rows; first += kBatch) {
      const int64_t count = std::min(kBatch, rows - first);
      std::vector<bf16> x(static_cast<size_t>(count * kBatch));
      std::vector<float> fn(static_cast<size_t>(kHcMixes * kBatch));
      for (int64_t t = 0; t < count; ++t) {
        x[static_cast<size_t>(t * kBatch + t)] = to_bf16(16.0f);
        for (int64_t k = 0; k < kHcMixes; ++k) {
          fn[static_cast<size_t>(k * kBatch + t)] = mixes.as<float>()[(first + t) * kHcMixes + k] / 16.0f;
        }
      }
      HcSeamArgs args;
      args.x = rows_of(x.data(), count, kBatch);
      args.d = kD;
      args.fn = fn.data(), args.base = base.as<float>(), args.scale = scale.as<float>();
      args.hc_eps = iters_eps.as<float>()[1];
      args.iterations = static_cast<int64_t>(iterations);
      args.entered = {got_pre.data() + first * 4, got_post.data() + first * 4, got_comb.data() + first * 16};
      checks.kernels.hc_seam(checks.context, args);
    }
    checks.largest_difference(name, "pre", got_pre.data(), pre.as<float>(), rows * 4, 1e-6);
    checks.largest_difference(name, "post", got_post.data(), post.as<float>(), rows * 4, 1e-6);
    checks.largest_difference(name, "comb", got_comb.data(), comb.as<float>(), rows * 16, 1e-6);
  }
  return {};
}

Status check_rope(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Bf16Tally tally;
  for (const std::string& prefix : file.prefixes(".freqs")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector freqs, positions, angles, cos, sin, x, rotated, inverse;
    DI_RETURN_IF_ERROR(file.take(prefix + "freqs", DType::f32, {-1}, freqs));
    DI_RETURN_IF_ERROR(file.take(prefix + "positions", DType::i32, {-1}, positions));
    const int64_t rows = positions.dim(0), half = freqs.dim(0), dim = 2 * half;
    DI_RETURN_IF_ERROR(file.take(prefix + "angles", DType::f32, {rows, half}, angles));
    DI_RETURN_IF_ERROR(file.take(prefix + "cos", DType::f32, {rows, half}, cos));
    DI_RETURN_IF_ERROR(file.take(prefix + "sin", DType::f32, {rows, half}, sin));
    DI_RETURN_IF_ERROR(file.take(prefix + "x", DType::bf16, {rows, dim}, x));
    DI_RETURN_IF_ERROR(file.take(prefix + "rotated", DType::bf16, {rows, dim}, rotated));
    DI_RETURN_IF_ERROR(file.take(prefix + "rotated_inverse", DType::bf16, {rows, dim}, inverse));

    const auto set = frequency_sets().find(prefix.substr(0, prefix.size() - 1));
    if (set == frequency_sets().end()) {
      checks.reporter.skip(name + ": freqs",
                           "the file does not say which base and scaling they come from, and the name is not known");
    } else {
      const RopeScaling* scaling = set->second.scaling ? &*set->second.scaling : nullptr;
      const std::vector<float> made = rope_frequencies(set->second.theta, dim, scaling);
      checks.all_equal(name, "freqs", made.data(), freqs.data, half, sizeof(float));
    }
    const std::vector<int64_t> wide(positions.as<int32_t>(), positions.as<int32_t>() + rows);
    std::vector<float> angle, got_cos(static_cast<size_t>(rows * half)), got_sin(got_cos.size());
    for (const int64_t position : wide) {
      for (int64_t j = 0; j < half; ++j) angle.push_back(static_cast<float>(position) * freqs.as<float>()[j]);
    }
    checks.all_equal(name, "angles", angle.data(), angles.data, rows * half, sizeof(float));
    checks.kernels.rope_table(checks.context,
                              {wide.data(), rows, freqs.as<float>(), half, got_cos.data(), got_sin.data()});
    checks.largest_difference(name, "cos", got_cos.data(), cos.as<float>(), rows * half, 2e-7);
    checks.largest_difference(name, "sin", got_sin.data(), sin.as<float>(), rows * half, 2e-7);
    for (const bool back : {false, true}) {
      std::vector<bf16> got(x.as<bf16>(), x.as<bf16>() + rows * dim);
      checks.kernels.rope(checks.context,
                          {rows_of(got.data(), rows, dim), dim, cos.as<float>(), sin.as<float>(), half, back, false});
      checks.bf16_close(name, back ? "rotated_inverse" : "rotated", got.data(), (back ? inverse : rotated).as<bf16>(),
                        rows * dim, tally);
    }
  }
  if (tally.total() > 0) checks.bf16_share("rotated and rotated_inverse", tally);
  return {};
}

Status check_rmsnorm(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Bf16Tally tally;
  for (const std::string& prefix : file.prefixes(".x")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector x, weight, eps, y;
    DI_RETURN_IF_ERROR(file.take(prefix + "x", DType::bf16, {-1, -1}, x));
    const int64_t rows = x.dim(0), d = x.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "weight", DType::bf16, {d}, weight));
    DI_RETURN_IF_ERROR(file.take(prefix + "eps", DType::f32, {1}, eps));
    DI_RETURN_IF_ERROR(file.take(prefix + "y", DType::bf16, {rows, d}, y));
    std::vector<bf16> got(static_cast<size_t>(rows * d));
    checks.kernels.rms_norm(
        checks.context,
        {rows_of(x.as<bf16>(), rows, d), weight.as<bf16>(), eps.as<float>()[0], rows_of(got.data(), rows, d), {}});
    checks.bf16_close(name, "y", got.data(), y.as<bf16>(), rows * d, tally);
  }
  if (tally.total() > 0) checks.bf16_share("y", tally);
  return {};
}

namespace {

// The gate returns selected weights only. Over a few experts at a time, all of them selected, they are shares of a sum; with the golden
// sum as route scale they are the scores.
void gate_scores(const KernelChecks& checks, const std::vector<float>& logits, const Vector& scores, int64_t k,
                 std::vector<float>& got) {
  const int64_t rows = scores.dim(0), experts = scores.dim(1), group = std::min(experts, std::max<int64_t>(2, k));
  const std::vector<float> no_bias(static_cast<size_t>(group), 0.0f);
  got.resize(static_cast<size_t>(rows * experts));
  std::vector<int32_t> index(static_cast<size_t>(group));
  for (int64_t t = 0; t < rows; ++t) {
    for (int64_t e = 0; e < experts; e += group) {
      const int64_t first = std::min(e, experts - group);
      double sum = 0;
      for (int64_t i = first; i < first + group; ++i) sum += static_cast<double>(scores.as<float>()[t * experts + i]);
      checks.kernels.moe_gate(checks.context,
                              {rows_of(logits.data() + t * experts + first, 1, group), no_bias.data(), nullptr, nullptr,
                               static_cast<float>(sum), rows_of(index.data(), 1, group),
                               rows_of(got.data() + t * experts + first, 1, group)});
    }
  }
}

}  // namespace

Status check_gate(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  for (const std::string& prefix : file.prefixes(".scores")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector x, weight, bias, scores, idx, weights, margin, route_scale;
    DI_RETURN_IF_ERROR(file.take(prefix + "x", DType::bf16, {-1, -1}, x));
    const int64_t rows = x.dim(0), d = x.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "weight", DType::bf16, {-1, d}, weight));
    const int64_t experts = weight.dim(0);
    DI_RETURN_IF_ERROR(file.take(prefix + "bias", DType::f32, {experts}, bias));
    DI_RETURN_IF_ERROR(file.take(prefix + "scores", DType::f32, {rows, experts}, scores));
    DI_RETURN_IF_ERROR(file.take(prefix + "idx", DType::i32, {rows, -1}, idx));
    const int64_t k = idx.dim(1);
    if (k > experts) return invalid("{}: '{}idx' selects {} of {} experts", file.stem(), prefix, k, experts);
    DI_RETURN_IF_ERROR(file.take(prefix + "weights", DType::f32, {rows, k}, weights));
    DI_RETURN_IF_ERROR(file.take(prefix + "margin", DType::f32, {rows}, margin));
    DI_RETURN_IF_ERROR(file.take(prefix + "route_scale", DType::f32, {1}, route_scale));

    std::vector<float> logits(static_cast<size_t>(rows * experts)), got_scores,
        got_weights(static_cast<size_t>(rows * k));
    std::vector<int32_t> got_idx(got_weights.size());
    const Matrix w{WeightKind::bf16, weight.data, nullptr, experts, d};
    checks.kernels.linear(checks.context,
                          {rows_of(x.as<bf16>(), rows, d), w, {}, rows_of(logits.data(), rows, experts)});
    if (experts > 1) {
      gate_scores(checks, logits, scores, k, got_scores);
      checks.largest_difference(name, "scores", got_scores.data(), scores.as<float>(), rows * experts, 2e-6);
    }
    checks.kernels.moe_gate(checks.context, {rows_of<const float>(logits.data(), rows, experts), bias.as<float>(),
                                             nullptr, nullptr, route_scale.as<float>()[0],
                                             rows_of(got_idx.data(), rows, k), rows_of(got_weights.data(), rows, k)});
    // Where two scores are closer than their tolerance, either may be chosen.
    int64_t different = 0, close = 0;
    double worst = 0;
    for (int64_t t = 0; t < rows; ++t) {
      if (!(margin.as<float>()[t] > 4e-6f)) {
        ++close;
        continue;
      }
      for (int64_t i = t * k; i < (t + 1) * k; ++i) {
        different += got_idx[static_cast<size_t>(i)] != idx.as<int32_t>()[i];
        const double difference =
            static_cast<double>(got_weights[static_cast<size_t>(i)]) - static_cast<double>(weights.as<float>()[i]);
        worst = std::fabs(difference) >= 0 ? std::max(worst, std::fabs(difference)) : HUGE_VAL;
      }
    }
    checks.at_most(name, "idx: elements that differ", static_cast<double>(different), 0);
    checks.at_most(name, "weights: largest difference", worst, 2e-6);
    if (close > 0)
      checks.reporter.skip(fmt::format("{}: idx of {} of {} rows", name, close, rows), "their margin is below 4e-6");
  }
  return {};
}

Status check_swiglu(const KernelChecks& checks) {
  const VectorFile& file = checks.file;
  Bf16Tally tally;
  for (const std::string& prefix : file.prefixes(".gate")) {
    const std::string name = checks.case_name(prefix);
    if (!checks.reporter.wants(name)) continue;
    Vector gate, up, weight, limit, shared, routed;
    DI_RETURN_IF_ERROR(file.take(prefix + "gate", DType::bf16, {-1, -1}, gate));
    const int64_t rows = gate.dim(0), width = gate.dim(1);
    DI_RETURN_IF_ERROR(file.take(prefix + "up", DType::bf16, {rows, width}, up));
    DI_RETURN_IF_ERROR(file.take(prefix + "weight", DType::f32, {rows, 1}, weight));
    DI_RETURN_IF_ERROR(file.take(prefix + "limit", DType::f32, {1}, limit));
    DI_RETURN_IF_ERROR(file.take(prefix + "shared", DType::bf16, {rows, width}, shared));
    DI_RETURN_IF_ERROR(file.take(prefix + "routed", DType::bf16, {rows, width}, routed));
    // One expert whose w1 and w3 hold a golden row in each column, and one-hot inputs that pick them; sizes padded as the op asks.
    const int64_t d = round_up(rows, 32), inter = round_up(width, 32);
    std::vector<bf16> w1(static_cast<size_t>(inter * d)), w3(w1.size()), w2(w1.size()),
        x(static_cast<size_t>(rows * d)), out(x.size());
    for (int64_t t = 0; t < rows; ++t) {
      x[static_cast<size_t>(t * d + t)] = to_bf16(1.0f);
      for (int64_t i = 0; i < width; ++i) {
        w1[static_cast<size_t>(i * d + t)] = gate.as<bf16>()[t * width + i];
        w3[static_cast<size_t>(i * d + t)] = up.as<bf16>()[t * width + i];
      }
    }
    const ExpertWeights expert{{WeightKind::bf16, w1.data(), nullptr, inter, d},
                               {WeightKind::bf16, w2.data(), nullptr, d, inter},
                               {WeightKind::bf16, w3.data(), nullptr, inter, d}};
    const std::vector<int32_t> index(static_cast<size_t>(rows), 0);
    std::vector<bf16> hidden(static_cast<size_t>(rows * 2 * inter), to_bf16(std::nanf("")));
    MoeExpertsArgs args;
    args.xq = rows_of<const bf16>(x.data(), rows, d);
    args.index = rows_of(index.data(), rows, 1);
    args.weight = rows_of(weight.as<float>(), rows, 1);
    args.experts = &expert, args.expert_count = 1, args.shared = &expert;
    args.limit = limit.as<float>()[0];
    args.out = rows_of(out.data(), rows, d);
    args.hidden = rows_of(hidden.data(), rows, 2 * inter);
    checks.kernels.moe_experts(checks.context, args);
    std::vector<bf16> got_routed, got_shared;
    for (int64_t t = 0; t < rows; ++t) {
      const bf16* row = args.hidden.row(t);
      got_routed.insert(got_routed.end(), row, row + width);
      got_shared.insert(got_shared.end(), row + inter, row + inter + width);
    }
    checks.bf16_close(name, "routed", got_routed.data(), routed.as<bf16>(), rows * width, tally);
    checks.bf16_close(name, "shared", got_shared.data(), shared.as<bf16>(), rows * width, tally);
  }
  if (tally.total() > 0) checks.bf16_share("routed and shared", tally);
  return {};
}

}  // namespace deepinfer
