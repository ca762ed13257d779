#include "backend/ops/engram.h"

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {
namespace {

constexpr int32_t kImage = -1;        // class of a token that takes no part
constexpr int32_t kBeforeStart = -2;  // class of the places before a sequence

void hash_token(const EngramHashArgs& args, const int32_t* token, int64_t* ids) {
  uint64_t r = 0;
  bool blocked = false;
  for (int64_t k = 0; k < args.max_ngram; ++k) {
    const int32_t token_class = token[-k];
    blocked = blocked || token_class == kImage || token_class == kBeforeStart;
    const auto t = static_cast<uint64_t>(blocked ? args.pad_class : token_class);
    r ^= t * args.multipliers[k];
    for (int64_t h = 0; h < args.heads && k > 0; ++h) {
      const int64_t column = (k - 1) * args.heads + h;
      ids[column] = static_cast<int64_t>(r % args.primes[column] + args.offsets[column]);
    }
  }
}

}  // namespace

void engram_hash(Context&, const EngramHashArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    for (int64_t i = 0; i < args.runs[run].rows; ++i) {
      hash_token(args, args.classes[run] + i, args.ids.row(args.runs[run].first_row + i));
    }
  }
}

void engram_gather(Context&, const EngramGatherArgs& args) {
  for (int64_t t = 0; t < args.ids.rows; ++t) {
    for (int64_t column = 0; column < args.ids.cols; ++column) {
      const int64_t row = args.ids.row(t)[column];
      for (int64_t i = 0; i < args.head_dim; ++i) {
        const double code = static_cast<double>(e4m3_to_float(args.codes[row * args.head_dim + i]));
        const double scale = e8m0_value(args.scales[(row * args.head_dim + i) / 32]);
        args.out.row(t)[column * args.head_dim + i] = round_to_bf16(code * scale);
      }
    }
  }
}

void engram_write(Context&, const EngramWriteArgs& args) {
  const auto d = static_cast<double>(args.d);
  for (int64_t t = 0; t < args.x.rows; ++t) {
    const bf16* value = args.kv.row(t) + kHcMult * args.d;
    for (int64_t c = 0; c < kHcMult; ++c) {
      bf16* x = args.x.row(t) + c * args.d;
      const bf16* key = args.kv.row(t) + c * args.d;
      double xx = 0, kk = 0, xk = 0;
      for (int64_t i = 0; i < args.d; ++i) {
        const double weight = as_double(args.q_weight[c * args.d + i]) * as_double(args.k_weight[c * args.d + i]);
        xx += as_double(x[i]) * as_double(x[i]);
        kk += as_double(key[i]) * as_double(key[i]);
        xk += as_double(x[i]) * weight * as_double(key[i]);
      }
      const double eps = static_cast<double>(args.eps);
      const double rstd = 1 / std::sqrt(xx / d + eps) * (1 / std::sqrt(kk / d + eps));
      const double dot = xk * rstd / std::sqrt(d);
      double gate = sigmoid64(std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6)), dot));
      if (args.image != nullptr && args.image[t] != 0) gate = 0;
      args.gate[t * kHcMult + c] = static_cast<float>(gate);
      for (int64_t i = 0; i < args.d; ++i) x[i] = round_to_bf16(as_double(x[i]) + gate * as_double(value[i]));
    }
  }
}

}  // namespace deepinfer::reference
