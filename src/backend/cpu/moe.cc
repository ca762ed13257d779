#include "backend/cpu/gemm.h"
#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

// t = silu(min(g, limit)) * clamp(u, +-limit), times the weight if routed, to bf16, then act_quant. In place over g.
void swiglu_row(bf16* g, const bf16* u, int64_t n, float limit, const float* weight, bf16* probe) {
  for (int64_t i = 0; i < n; i += 16) {  // n is a multiple of 32
    f32x16 gate = load_bf16(g + i), up = load_bf16(u + i);
    if (planted(Fault::no_clamp)) limit = 1e30f;
    up = select(up > splat(limit), splat(limit), up);
    up = select(up < splat(-limit), splat(-limit), up);
    gate = select(gate > splat(limit), splat(limit), gate);
    f32x16 t = gate / (1.0f + exp32x16(-gate)) * up;
    if (weight != nullptr && !planted(Fault::weight_after_w2)) t = splat(*weight) * t;
    store_bf16(g + i, t);
  }
  if (probe != nullptr) std::memcpy(probe, g, static_cast<size_t>(n) * sizeof(bf16));
  act_quant_row(g, g, n);
}

// The (token, slot) pairs by expert; the shared expert comes last with a pair for every token.
struct Pairs {
  int64_t* token;  // [pairs]
  int64_t* index;  // [pairs] t * k + slot: which weight, which row of y
  int64_t* begin;  // [experts + 2]
};

Pairs group_by_expert(Arena& arena, const MoeExpertsArgs& args) {
  const int64_t tokens = args.xq.rows, k = args.index.cols;
  Pairs pairs{arena.take<int64_t>(tokens * (k + 1)), arena.take<int64_t>(tokens * (k + 1)),
              arena.take<int64_t>(args.expert_count + 2)};
  int64_t* next = arena.take<int64_t>(args.expert_count + 1);
  for (int64_t e = 0; e <= args.expert_count; ++e) next[e] = 0;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t s = 0; s < k; ++s) ++next[args.index.row(t)[s]];
  }
  next[args.expert_count] = tokens;
  pairs.begin[0] = 0;
  for (int64_t e = 0; e <= args.expert_count; ++e) {
    pairs.begin[e + 1] = pairs.begin[e] + next[e];
    next[e] = pairs.begin[e];
  }
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t s = 0; s < k; ++s) {
      const int64_t p = next[args.index.row(t)[s]]++;
      pairs.token[p] = t;
      pairs.index[p] = t * k + s;
    }
    const int64_t p = next[args.expert_count]++;
    pairs.token[p] = t;
    pairs.index[p] = tokens * k + t;
  }
  return pairs;
}

}  // namespace

void moe_gate(Context& context, const MoeGateArgs& args) {
  const int64_t experts = args.logits.cols, k = args.index.cols;
  context.pool->parallel_for(
      args.logits.rows, 4096 / (experts * 16 + 1) + 1, [&](int64_t begin, int64_t end, int thread) {
        float* score = reinterpret_cast<float*>(context.scratch_of(thread));
        float* biased = score + experts;
        for (int64_t t = begin; t < end; ++t) {
          const float* bias = args.image != nullptr && args.image[t] != 0 ? args.bias_vl : args.bias;
          for (int64_t e = 0; e < experts; ++e) {
            score[e] = __builtin_sqrtf(softplus(args.logits.row(t)[e]));
            biased[e] = score[e] + bias[e];
          }
          int32_t* index = args.index.row(t);
          float* weight = args.weight.row(t);
          for (int64_t s = 0; s < k; ++s) {
            int64_t best = -1;
            for (int64_t e = 0; e < experts; ++e) {
              if (biased[e] == biased[e] && (best < 0 || biased[e] > biased[best])) best = e;
            }
            if (best < 0) best = s;  // not-a-number everywhere: any experts, the output is not a number either
            index[s] = static_cast<int32_t>(best);
            biased[best] = __builtin_nanf("");
          }
          for (int64_t i = 1; i < k; ++i) {  // ascending experts
            for (int64_t j = i; j > 0 && index[j - 1] > index[j]; --j) {
              const int32_t other = index[j];
              index[j] = index[j - 1];
              index[j - 1] = other;
            }
          }
          float sum = 0.0f;
          if (planted(Fault::biased_weights)) {
            for (int64_t e = 0; e < experts; ++e) score[e] = score[e] + bias[e];
          }
          for (int64_t s = 0; s < k; ++s) sum = sum + (weight[s] = score[index[s]]);
          for (int64_t s = 0; s < k; ++s) weight[s] = weight[s] / (sum + 1e-20f) * args.route_scale;
        }
      });
}

void moe_experts(Context& context, const MoeExpertsArgs& args) {
  const int64_t tokens = args.xq.rows, k = args.index.cols, d = args.out.cols;
  if (tokens == 0) return;
  const int64_t width = args.shared->w1.n, count = tokens * (k + 1), jobs_max = args.expert_count + 1;
  Arena& arena = *context.arena;
  const int64_t mark = arena.mark();
  const Pairs pairs = group_by_expert(arena, args);
  bf16* gate = arena.take<bf16>(count * width);  // pair order
  bf16* up = arena.take<bf16>(count * width);
  bf16* y = arena.take<bf16>(count * d);  // [t * k + slot], then shared [t]
  const bf16** x_rows = arena.take<const bf16*>(count);
  const bf16** gate_in = arena.take<const bf16*>(count);
  bf16** gate_rows = arena.take<bf16*>(count);
  bf16** up_rows = arena.take<bf16*>(count);
  bf16** y_rows = arena.take<bf16*>(count);
  GemmJob* jobs = arena.take<GemmJob>(2 * jobs_max);
  for (int64_t p = 0; p < count; ++p) {
    x_rows[p] = args.xq.row(pairs.token[p]);
    gate_in[p] = gate_rows[p] = gate + p * width;
    up_rows[p] = up + p * width;
    y_rows[p] = y + pairs.index[p] * d;
  }
  const auto job = [&](const Matrix& w, int64_t e, const bf16* const* in, bf16** out) {
    const int64_t from = pairs.begin[e];
    return GemmJob{w, 0, w.n, in + from, reinterpret_cast<void* const*>(out + from), pairs.begin[e + 1] - from, false};
  };
  int64_t used = 0;
  for (int64_t e = 0; e <= args.expert_count; ++e) {
    if (pairs.begin[e] == pairs.begin[e + 1]) continue;
    const ExpertWeights& weights = e == args.expert_count ? *args.shared : args.experts[e];
    jobs[used++] = job(weights.w1, e, x_rows, gate_rows);
    jobs[used++] = job(weights.w3, e, x_rows, up_rows);
  }
  run_gemm_jobs(context, jobs, used);
  context.pool->parallel_for(count, 8192 / (width + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t index = pairs.index[p];
      const bool routed = index < tokens * k;
      const float* weight = routed ? args.weight.row(index / k) + index % k : nullptr;
      bf16* probe = nullptr;
      if (args.hidden.data != nullptr) probe = args.hidden.row(pairs.token[p]) + (routed ? index % k : k) * width;
      swiglu_row(gate + p * width, up + p * width, width, args.limit, weight, probe);
    }
  });
  used = 0;
  for (int64_t e = 0; e <= args.expert_count; ++e) {
    if (pairs.begin[e] == pairs.begin[e + 1]) continue;
    const ExpertWeights& weights = e == args.expert_count ? *args.shared : args.experts[e];
    jobs[used++] = job(weights.w2, e, gate_in, y_rows);
  }
  run_gemm_jobs(context, jobs, used);
  context.pool->parallel_for(tokens, 8192 / (d + 1) + 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < d; i += 16) {
        const auto term = [&](int64_t s) {
          const f32x16 v = load_bf16(y + (t * k + s) * d + i);
          return planted(Fault::weight_after_w2) ? splat(args.weight.row(t)[s]) * v : v;
        };
        f32x16 sum = term(0);
        for (int64_t s = 1; s < k; ++s) sum = sum + term(s);
        store_bf16(args.out.row(t) + i, sum + load_bf16(y + (tokens * k + t) * d + i));
      }
    }
  });
  arena.release(mark);
}

}  // namespace deepinfer::DI_ISA
