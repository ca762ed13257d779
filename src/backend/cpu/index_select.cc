#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

constexpr int64_t kBlock = 32;
constexpr float kHidden = -__builtin_huge_valf();

// Order-preserving 16-bit key of a bf16-valued float.
DI_INLINE uint32_t sort_key(float score) {
  const uint32_t bits = float_to_bits(score) >> 16;
  return (bits & 0x8000u) != 0 ? (~bits & 0xFFFFu) : (bits | 0x8000u);
}

// Finds the k-th largest key of n scores (k <= number of scores above -infinity): the key, and how many are strictly
// greater.
void kth_largest(const float* scores, int64_t n, int64_t k, uint32_t& key, int64_t& greater) {
  int64_t high[256] = {};
  for (int64_t i = 0; i < n; ++i) ++high[sort_key(scores[i]) >> 8];
  int64_t above = 0;
  int bucket = 255;
  for (; above + high[bucket] < k; --bucket) above += high[bucket];
  int64_t low[256] = {};
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t s = sort_key(scores[i]);
    if (static_cast<int>(s >> 8) == bucket) ++low[s & 0xFFu];
  }
  int last = 255;
  for (; above + low[last] < k; --last) above += low[last];
  key = static_cast<uint32_t>(bucket) << 8 | static_cast<uint32_t>(last);
  greater = above;
}

// Writes the k best of n scores in ascending index order, lowest index first among equals; -infinity is never written.
// Returns how many.
int64_t select_top(const float* scores, int64_t n, int64_t k, int32_t* out) {
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) finite += scores[i] != kHidden;
  if (k > finite) k = finite;
  if (k == 0) return 0;
  uint32_t key = 0;
  int64_t greater = 0;
  kth_largest(scores, n, k, key, greater);
  int64_t equal_left = k - greater, count = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t s = sort_key(scores[i]);
    if (s > key || (s == key && equal_left > 0)) {
      equal_left -= s == key;
      out[count++] = static_cast<int32_t>(i);
    }
  }
  return count;
}

struct Query {
  const float* q;        // [heads, head_dim], split order
  const float* weights;  // [heads]
  int64_t heads;
  int64_t head_dim;
};

DI_INLINE void decode_key(const uint8_t* row, int64_t d, float* out) {
  for (int64_t b = 0; b < d; b += kBlock) {
    const u32x16 v = widen_u8(row + b / 2);
    const f32x16 scale = splat(e8m0_to_float(row[d / 2 + b / kBlock]));
    store(out + b, decode_e2m1(v >> 4) * scale);
    store(out + b + 16, decode_e2m1(v & 0xFu) * scale);
  }
}

// Scores of N decoded keys.
template <int N>
void score_keys(const Query& query, const float* keys, float* out) {
  const int64_t d = query.head_dim;
  float total[N] = {};
  for (int64_t h = 0; h < query.heads; ++h) {
    const float* q = query.q + h * d;
    f32x16 sum[N] = {};
    for (int64_t b = 0; b < d; b += kBlock) {
      const f32x16 odd = load<f32x16>(q + b), even = load<f32x16>(q + b + 16);
      DI_UNROLL for (int n = 0; n < N; ++n) {
        sum[n] = sum[n] + load<f32x16>(keys + n * d + b) * odd;
        sum[n] = sum[n] + load<f32x16>(keys + n * d + b + 16) * even;
      }
    }
    DI_UNROLL for (int n = 0; n < N; ++n) {
      const float dot = round_bf16(sum_by_halves(sum[n]));
      total[n] = total[n] + round_bf16((dot > 0.0f ? dot : 0.0f) * query.weights[h]);
    }
  }
  DI_UNROLL for (int n = 0; n < N; ++n) out[n] = round_bf16(total[n]);
}

void score_range(const Query& query, const PagedRows& rows, int64_t begin, int64_t end, float* keys, float* scores) {
  constexpr int64_t kKeys = kSums > 4 ? 4 : kSums;
  int64_t r = begin;
  for (; r + kKeys <= end; r += kKeys) {
    for (int64_t n = 0; n < kKeys; ++n) {
      decode_key(reinterpret_cast<const uint8_t*>(rows.key(r + n)), query.head_dim, keys + n * query.head_dim);
    }
    score_keys<kKeys>(query, keys, scores + r);
  }
  for (; r < end; ++r) {
    decode_key(reinterpret_cast<const uint8_t*>(rows.key(r)), query.head_dim, keys);
    score_keys<1>(query, keys, scores + r);
  }
}

// Spec 6.5, over the visible rows; block scores are left in `scores` of the blocks' own buffer.
void publish(const IndexSelectArgs& args, int64_t t, int64_t visible, const float* scores, float* block_scores) {
  const int64_t blocks = (visible + args.block_size - 1) / args.block_size;
  if (blocks <= args.candidates.capacity) {
    args.candidates.counts[t] = -1;
    return;
  }
  for (int64_t b = 0; b < blocks; ++b) {
    float best = kHidden;
    for (int64_t r = b * args.block_size; r < visible && r < (b + 1) * args.block_size; ++r) {
      if (scores[r] > best) best = scores[r];
    }
    block_scores[b] = best;
  }
  if (!planted(Fault::newest_block)) block_scores[(visible - 1) / args.block_size] = __builtin_huge_valf();
  args.candidates.counts[t] = static_cast<int32_t>(select_top(block_scores, blocks, args.candidates.capacity,
                                                              args.candidates.blocks + t * args.candidates.capacity));
}

}  // namespace

void index_select(Context& context, const IndexSelectArgs& args) {
  const int64_t tokens = args.q.rows, k = args.selected.cols;
  const int64_t width = args.heads * args.head_dim;
  const int64_t mark = context.arena->mark();
  const int threads = context.pool->threads();
  float* row_scratch = context.arena->take<float>(threads * 2 * args.max_rows);
  context.pool->parallel_for(tokens, 1, [&](int64_t begin, int64_t end, int thread) {
    Arena scratch(context.scratch_of(thread), int64_t{1} << 40);
    float* q = scratch.take<float>(width);
    float* weights = scratch.take<float>(args.heads);
    float* keys = scratch.take<float>(4 * args.head_dim);
    float* scores = row_scratch + thread * 2 * args.max_rows;
    float* block_scores = scores + args.max_rows;
    int64_t run = 0;
    for (int64_t t = begin; t < end; ++t) {
      while (t >= args.runs[run].first_row + args.runs[run].rows) ++run;
      const int64_t position = args.runs[run].start + t - args.runs[run].first_row;
      const int64_t visible = (position + 1) / args.ratio;
      for (int64_t b = 0; b < width; b += kBlock) {
        f32x16 odd, even;
        split_bf16(args.q.row(t) + b, odd, even);
        store(q + b, odd);
        store(q + b + 16, even);
      }
      for (int64_t h = 0; h < args.heads; ++h) weights[h] = to_float(args.weights.row(t)[h]);
      const Query query{q, weights, args.heads, args.head_dim};

      const bool all = !args.use_candidates || planted(Fault::candidates_ignored);
      const int32_t kept = all ? -1 : args.candidates.counts[t];
      if (kept < 0) {
        score_range(query, args.rows[run], 0, visible, keys, scores);
      } else {
        for (int64_t r = 0; r < visible; ++r) scores[r] = kHidden;
        for (int32_t c = 0; c < kept; ++c) {
          const int64_t first = args.candidates.blocks[t * args.candidates.capacity + c] * args.block_size;
          const int64_t last = first + args.block_size < visible ? first + args.block_size : visible;
          if (first < last) score_range(query, args.rows[run], first, last, keys, scores);
        }
      }
      if (args.publish_candidates) publish(args, t, visible, scores, block_scores);
      int32_t* selected = args.selected.row(t);
      for (int64_t i = select_top(scores, visible, k, selected); i < k; ++i) selected[i] = -1;
      if (args.scores.data != nullptr) {
        float* out = args.scores.row(t);
        for (int64_t r = 0; r < args.scores.cols; ++r) out[r] = r < visible ? scores[r] : kHidden;
      }
    }
  });
  context.arena->release(mark);
}

}  // namespace deepinfer::DI_ISA
