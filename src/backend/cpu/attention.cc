#include "backend/cpu/isa_kernels.h"
#include "backend/cpu/rows.h"
#include "base/threads.h"

namespace deepinfer::DI_ISA {
namespace {

constexpr int64_t kChunkColumns = 64;
constexpr int64_t kBlock = 32;  // values of a row, held as 16 odd, then 16 even ones

// The column list of one query: rows in the order of the contract; null is an empty column.
struct Columns {
  const uint8_t** rows;
  int64_t window_count;  // the first columns are window rows, the others compressed rows
  int64_t count;
};

DI_INLINE const std::byte* window_row(const AttentionArgs& args, int64_t run, int64_t position) {
  const RunView& view = args.runs[run];
  const int64_t bytes = window_row_bytes(args.head_dim);
  if (position >= view.start) return args.step_rows + (view.first_row + position - view.start) * bytes;
  return args.rings[run] + (position % args.ring_rows) * bytes;
}

void list_columns(const AttentionArgs& args, int64_t run, int64_t t, Columns& columns) {
  const RunView& view = args.runs[run];
  int64_t count = 0;
  const auto add = [&](const std::byte* row) { columns.rows[count++] = reinterpret_cast<const uint8_t*>(row); };
  if (args.columns == WindowColumns::listed) {
    const int32_t* listed = args.listed.row(t);
    const int64_t bytes = window_row_bytes(args.head_dim);
    for (int64_t c = 0; c < args.listed.cols; ++c) add(listed[c] < 0 ? nullptr : args.step_rows + listed[c] * bytes);
  } else if (args.columns == WindowColumns::draft) {
    const int64_t base = view.start - 1;
    const int64_t ring_columns = args.window < base + 1 ? args.window : base + 1;
    for (int64_t c = 0; c < ring_columns; ++c) {
      const int64_t position = base - (base - c) % args.window;
      add(position < view.window_begin ? nullptr : window_row(args, run, position));
    }
    const int64_t own = planted(Fault::draft_rows) ? 0 : view.rows;
    for (int64_t r = 0; r < own; ++r) add(window_row(args, run, view.start + r));
  } else {
    const int64_t position = view.start + t - view.first_row;
    int64_t from = position - args.window + (planted(Fault::window_short) ? 2 : 1);
    const int64_t begin = planted(Fault::replay_window) ? 0 : view.window_begin;
    if (from < begin) from = begin;
    for (int64_t p = from; p <= position; ++p) add(window_row(args, run, p));
    while (count < args.window && !planted(Fault::empty_columns_dropped)) add(nullptr);
  }
  columns.window_count = count;
  if (args.compressed != nullptr) {
    const int32_t* selected = args.selected.row(t);
    for (int64_t i = 0; i < args.selected.cols; ++i)
      add(selected[i] < 0 ? nullptr : args.compressed[run].kv(selected[i]));
  }
  columns.count = count;
}

// A window row: E4M3 codes and a scale per 32 values.
DI_INLINE void decode_window_row(const uint8_t* row, int64_t d, float* out) {
  for (int64_t b = 0; b < d; b += kBlock) {
    const u32x16 v = widen_u16(row + b);
    const f32x16 scale = splat(e8m0_to_float(row[d + b / kBlock]));
    store(out + b, decode_e4m3(v >> 8) * scale);
    store(out + b + 16, decode_e4m3(v & 0xFFu) * scale);
  }
}

// A compressed row: two E2M1 a byte and an E4M3 scale per 16 values.
DI_INLINE void decode_compressed_row(const uint8_t* row, int64_t d, float* out) {
  for (int64_t b = 0; b < d; b += kBlock) {
    const u32x16 v = widen_u8(row + b / 2);
    const float low = e4m3_to_float(row[d / 2 + b / 16]), high = e4m3_to_float(row[d / 2 + b / 16 + 1]);
    float scales[16];
    for (int i = 0; i < 16; ++i) scales[i] = i < 8 ? low : high;
    const f32x16 scale = load<f32x16>(scales);
    store(out + b, decode_e2m1(v >> 4) * scale);
    store(out + b + 16, decode_e2m1(v & 0xFu) * scale);
  }
}

DI_INLINE void split_row(const bf16* x, int64_t d, float* out) {
  for (int64_t b = 0; b < d; b += kBlock) {
    f32x16 odd, even;
    split_bf16(x + b, odd, even);
    store(out + b, odd);
    store(out + b + 16, even);
  }
}

// Dot products of one query with N decoded rows.
template <int N>
DI_INLINE void dots(const float* q, const float* const* keys, int64_t d, float* out) {
  f32x16 sum[N] = {};
  for (int64_t b = 0; b < d; b += kBlock) {
    const f32x16 odd = load<f32x16>(q + b), even = load<f32x16>(q + b + 16);
    DI_UNROLL for (int n = 0; n < N; ++n) {
      sum[n] = sum[n] + load<f32x16>(keys[n] + b) * odd;
      sum[n] = sum[n] + load<f32x16>(keys[n] + b + 16) * even;
    }
  }
  DI_UNROLL for (int n = 0; n < N; ++n) out[n] = sum_by_halves(sum[n]);
}

// acc = acc * a + sum over the chunk's rows of p * row, V vectors of the accumulator at a time.
template <int V>
DI_INLINE void accumulate(float* acc, float a, const float* p, const float* const* rows, int64_t count,
                          int64_t offset) {
  f32x16 sum[V];
  DI_UNROLL for (int v = 0; v < V; ++v) sum[v] = load<f32x16>(acc + offset + v * 16) * splat(a);
  for (int64_t i = 0; i < count; ++i) {
    const f32x16 weight = splat(p[i]);
    DI_UNROLL for (int v = 0; v < V; ++v) sum[v] = sum[v] + weight * load<f32x16>(rows[i] + offset + v * 16);
  }
  DI_UNROLL for (int v = 0; v < V; ++v) store(acc + offset + v * 16, sum[v]);
}

struct HeadState {
  float max;
  float sum;
};

// One head over one chunk: `valid` decoded rows, at columns `column` of the chunk.
void head_chunk(const float* q, float scale, const float* const* rows, const int32_t* column, int64_t valid, int64_t d,
                HeadState& head, float* acc) {
  float scores[kChunkColumns];
  int64_t i = 0;
  constexpr int kKeys = kSums > 4 ? 4 : kSums;
  for (; i + kKeys <= valid; i += kKeys) dots<kKeys>(q, rows + i, d, scores + i);
  for (; i < valid; ++i) dots<1>(q, rows + i, d, scores + i);
  float largest = head.max;
  for (i = 0; i < valid; ++i) {
    scores[i] = scores[i] * scale;
    if (scores[i] > largest) largest = scores[i];
  }
  const float a = exp32(head.max - largest);
  float p[kChunkColumns];
  for (i = 0; i < valid; i += 16) {
    for (int64_t j = valid; j < i + 16; ++j) scores[j] = -__builtin_huge_valf();
    store(p + i, exp32x16(load<f32x16>(scores + i) - splat(largest)));
  }
  float partial[16] = {};  // lane = column mod 16
  for (i = 0; i < valid; ++i) partial[column[i] & 15] = partial[column[i] & 15] + p[i];
  head.sum = head.sum * a + sum_by_halves(load<f32x16>(partial));
  head.max = largest;
  for (i = 0; i < valid && !planted(Fault::probabilities_unrounded); ++i) p[i] = round_bf16(p[i]);
  int64_t offset = 0;
  constexpr int kWide = kSums > 8 ? 8 : kSums;
  for (; offset + kWide * 16 <= d; offset += kWide * 16) accumulate<kWide>(acc, a, p, rows, valid, offset);
  for (; offset < d; offset += 32) accumulate<2>(acc, a, p, rows, valid, offset);
}

// acc / sum to bf16, back from the split order.
DI_INLINE void write_head(const float* acc, float sum, bf16* out, int64_t d) {
  for (int64_t b = 0; b < d; b += kBlock) {
    const u32x16 odd = bf16_bits(load<f32x16>(acc + b) / splat(sum));
    const u32x16 even = bf16_bits(load<f32x16>(acc + b + 16) / splat(sum));
    store(out + b, (odd << 16) | even);
  }
}

// Heads [first, last) of query t.
void attend(const AttentionArgs& args, int64_t run, int64_t t, int64_t first, int64_t last, std::byte* scratch) {
  const int64_t d = args.head_dim;
  Arena arena(scratch, int64_t{1} << 40);
  Columns columns{};
  const int64_t draft_rows = args.columns == WindowColumns::draft ? args.runs[run].rows : 0;
  columns.rows = arena.take<const uint8_t*>(args.window + args.listed.cols + args.selected.cols + draft_rows);
  list_columns(args, run, t, columns);
  float* decoded = arena.take<float>(kChunkColumns * d);
  float* q = arena.take<float>((last - first) * d);
  float* acc = arena.take<float>((last - first) * d);
  HeadState* heads = arena.take<HeadState>(last - first);
  std::memset(acc, 0, static_cast<size_t>((last - first) * d) * sizeof(float));
  for (int64_t h = first; h < last; ++h) {
    heads[h - first] = {-1e30f, 0.0f};
    split_row(args.q.row(t) + h * d, d, q + (h - first) * d);
  }
  for (int64_t begin = 0; begin < columns.count; begin += kChunkColumns) {
    const float* rows[kChunkColumns];
    int32_t column[kChunkColumns];
    int64_t valid = 0;
    for (int64_t c = begin; c < columns.count && c < begin + kChunkColumns; ++c) {
      if (columns.rows[c] == nullptr) continue;
      float* out = decoded + valid * d;
      if (c < columns.window_count) {
        decode_window_row(columns.rows[c], d, out);
      } else {
        decode_compressed_row(columns.rows[c], d, out);
      }
      rows[valid] = out;
      column[valid++] = static_cast<int32_t>(c - begin);
    }
    if (valid == 0) continue;
    for (int64_t h = 0; h < last - first; ++h)
      head_chunk(q + h * d, args.scale, rows, column, valid, d, heads[h], acc + h * d);
  }
  for (int64_t h = first; h < last; ++h) {
    const HeadState& head = heads[h - first];
    bf16* out = args.out.row(t) + h * d;
    const float sink = planted(Fault::no_sink) ? 0.0f : exp32(args.sink[h] - head.max);
    write_head(acc + (h - first) * d, head.sum + sink, out, d);
    if (planted(Fault::no_inverse_rope)) continue;
    rope_head(out, d, args.cos + t * args.half, args.sin + t * args.half, args.half, -1.0f);
  }
}

}  // namespace

void attention(Context& context, const AttentionArgs& args) {
  // One task a query; with fewer queries than threads, each is cut by heads.
  const int64_t threads = context.pool->threads();
  const int64_t tokens = args.q.rows;
  int64_t parts = tokens >= threads ? 1 : threads;
  if (parts > args.heads) parts = args.heads;
  context.pool->parallel_for(tokens * parts, 1, [&](int64_t begin, int64_t end, int thread) {
    int64_t run = 0;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t t = i / parts, part = i % parts;
      while (t >= args.runs[run].first_row + args.runs[run].rows) ++run;
      attend(args, run, t, args.heads * part / parts, args.heads * (part + 1) / parts, context.scratch_of(thread));
    }
  });
}

}  // namespace deepinfer::DI_ISA
