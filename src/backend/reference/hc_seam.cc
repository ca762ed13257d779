#include "backend/ops/hc_seam.h"

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

double value(const float* p, int64_t i) { return static_cast<double>(p[i]); }

// Spec 4.2, hc_post.
void leave(const HcSeamArgs& args, int64_t t) {
  bf16* x = args.x.row(t);
  for (int64_t e = 0; e < args.d; ++e) {
    double out[kHcMult];
    for (int64_t j = 0; j < kHcMult; ++j) {
      out[j] = value(args.left.post, t * kHcMult + j) * as_double(args.y.row(t)[e]);
      for (int64_t i = 0; i < kHcMult; ++i) {
        out[j] += value(args.left.comb, (t * kHcMult + i) * kHcMult + j) * as_double(x[i * args.d + e]);
      }
    }
    for (int64_t j = 0; j < kHcMult; ++j) x[j * args.d + e] = round_to_bf16(out[j]);
  }
}

// Spec 4.4.
void tap(const HcSeamArgs& args, int64_t t) {
  for (int64_t e = 0; e < args.d; ++e) {
    double sum = 0;
    for (int64_t i = 0; i < kHcMult; ++i) sum += as_double(args.x.row(t)[i * args.d + e]);
    args.tap.row(t)[e] = round_to_bf16(sum / kHcMult);
  }
}

// Spec 4.1, steps 1 and 2.
void mixes(const HcSeamArgs& args, int64_t t, double* m) {
  const int64_t n = kHcMult * args.d;
  double square = 0;
  for (int64_t i = 0; i < n; ++i) square += as_double(args.x.row(t)[i]) * as_double(args.x.row(t)[i]);
  const double r = 1.0 / std::sqrt(square / static_cast<double>(n) + static_cast<double>(args.norm_eps));
  for (int64_t k = 0; k < kHcMixes; ++k) {
    double dot = 0;
    for (int64_t i = 0; i < n; ++i) dot += value(args.fn, k * n + i) * as_double(args.x.row(t)[i]);
    m[k] = dot * r;
  }
}

// Spec 4.1, step 6: c[i][j], i the source (row), j the destination (column).
void sinkhorn(double (*c)[kHcMult], double eps, int64_t iterations) {
  const auto divide_rows = [&](double added) {
    for (int64_t i = 0; i < kHcMult; ++i) {
      double sum = added;
      for (int64_t j = 0; j < kHcMult; ++j) sum += c[i][j];
      for (int64_t j = 0; j < kHcMult; ++j) c[i][j] /= sum;
    }
  };
  const auto divide_columns = [&] {
    for (int64_t j = 0; j < kHcMult; ++j) {
      double sum = eps;
      for (int64_t i = 0; i < kHcMult; ++i) sum += c[i][j];
      for (int64_t i = 0; i < kHcMult; ++i) c[i][j] /= sum;
    }
  };
  for (int64_t i = 0; i < kHcMult; ++i) {
    const double largest = *std::max_element(c[i], c[i] + kHcMult);
    for (int64_t j = 0; j < kHcMult; ++j) c[i][j] = std::exp(c[i][j] - largest);
  }
  divide_rows(0);
  for (int64_t i = 0; i < kHcMult * kHcMult; ++i) c[i / kHcMult][i % kHcMult] += eps;
  divide_columns();
  for (int64_t round = 1; round < iterations; ++round) {
    divide_rows(eps);
    divide_columns();
  }
}

// Spec 4.2, hc_pre, then the norm and the quantiser.
void collapse(Context& context, const HcSeamArgs& args, int64_t t) {
  std::vector<bf16> row(static_cast<size_t>(args.d));
  for (int64_t e = 0; e < args.d; ++e) {
    double sum = 0;
    for (int64_t i = 0; i < kHcMult; ++i)
      sum += value(args.pre_in, t * kHcMult + i) * as_double(args.x.row(t)[i * args.d + e]);
    row[static_cast<size_t>(e)] = round_to_bf16(sum);
  }
  if (args.collapsed.data != nullptr) std::copy(row.begin(), row.end(), args.collapsed.row(t));
  rms_norm_row(row.data(), args.norm_weight, args.norm_eps, args.d, args.h.row(t));
  if (args.hq.data != nullptr)
    act_quant(context, {rows_of<const bf16>(args.h.row(t), 1, args.d), rows_of(args.hq.row(t), 1, args.d)});
}

}  // namespace

// Spec 4.1, steps 3 to 6.
void split_mixes(const HcSeamArgs& args, int64_t t, const double* m) {
  const double eps = static_cast<double>(args.hc_eps);
  const auto logit = [&](int64_t k, int64_t part) { return m[k] * value(args.scale, part) + value(args.base, k); };
  for (int64_t i = 0; i < kHcMult; ++i) {
    args.entered.pre[t * kHcMult + i] = static_cast<float>(sigmoid64(logit(i, 0)) + eps);
    args.entered.post[t * kHcMult + i] = static_cast<float>(2 * sigmoid64(logit(kHcMult + i, 1)));
  }
  double c[kHcMult][kHcMult];
  for (int64_t i = 0; i < kHcMult; ++i) {
    for (int64_t j = 0; j < kHcMult; ++j) c[i][j] = logit(2 * kHcMult + kHcMult * i + j, 2);
  }
  sinkhorn(c, eps, args.iterations);
  for (int64_t i = 0; i < kHcMult * kHcMult; ++i) {
    args.entered.comb[t * kHcMult * kHcMult + i] = static_cast<float>(c[i / kHcMult][i % kHcMult]);
  }
}

double sigmoid64(double x) { return 1.0 / (1.0 + std::exp(-x)); }

void hc_seam(Context& context, const HcSeamArgs& args) {
  for (int64_t t = 0; t < args.x.rows; ++t) {
    if (args.y.data != nullptr) leave(args, t);
    if (args.tap.data != nullptr) tap(args, t);
    if (args.pre_in != nullptr) collapse(context, args, t);
    if (args.fn == nullptr) continue;
    double m[kHcMixes];
    mixes(args, t, m);
    for (int64_t k = 0; k < kHcMixes && args.mixes.data != nullptr; ++k)
      args.mixes.row(t)[k] = static_cast<float>(m[k]);
    split_mixes(args, t, m);
  }
}

}  // namespace deepinfer::reference
