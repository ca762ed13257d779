// Sparse attention of one layer with sinks: every query over its window rows, then its selected compressed rows.
//
// Columns  causal: positions max(window_begin, i - window + 1) .. i ascending, then empty columns up to `window`; then the selected rows, ascending,
//          empty columns last. Empty columns keep their places: chunks are counted over columns.                            Spec 5.4
//          draft: column c holds the newest position <= base with position mod window = c (empty if there is none at or after
//          window_begin), min(window, base + 1) columns; then all rows of the run, in both directions.                        Spec 9
//          listed: column c of token t is row listed[t][c] of step_rows, -1 an empty column (golden lists with holes); then the selected
//          rows. Rings and positions play no part; the runs cover the tokens as always.
// Per head in chunks of 64 columns: s = (q . kv) * scale; m = max(m, s), from -1e30; p = exp32(s - m); sum = sum * a + sum p;
//          acc = acc * a + sum bf16(p) * kv; at the end sum += exp32(sink - m); o = bf16(acc / sum). Then the inverse RoPE at the query's
//          position, rounded to bf16 again.                                                                                   Spec 5.4, 5.5
// Rounding q . kv as in linear.h (order over head_dim); the rest float32; acc: columns ascending, each dimension on its own; sum p: 16
//          partial sums (lane = column mod 16), added by halves. Products and sums rounded apart. Empty columns are skipped.
// Shapes   q, o [tokens, heads * head_dim] bf16 · sink [heads] float32.
// Families portable = avx2 = avx512, bit for bit.
#pragma once

#include "backend/ops/index_select.h"
#include "backend/ops/types.h"

namespace deepinfer {

enum class WindowColumns : uint8_t { causal, draft, listed };

struct AttentionArgs {
  Rows<const bf16> q;
  Rows<bf16> out;
  int64_t heads = 0;
  int64_t head_dim = 0;
  float scale = 0;
  const float* sink = nullptr;
  WindowColumns columns = WindowColumns::causal;
  int64_t window = 0;          // listed: ignored
  Rows<const int32_t> listed;  // [tokens, columns], only with WindowColumns::listed
  const RunView* runs = nullptr;
  int64_t run_count = 0;
  const std::byte* step_rows = nullptr;     // window rows of this step's tokens, [tokens] consecutive
  const std::byte* const* rings = nullptr;  // [runs] this layer's ring; slot = position mod ring_rows
  int64_t ring_rows = 0;
  // Compressed rows; without data in window-only layers.
  const PagedRows* compressed = nullptr;  // [runs]
  Rows<const int32_t> selected;           // [tokens, k]
  // Inverse RoPE.
  const float* cos = nullptr;  // [tokens, half]
  const float* sin = nullptr;
  int64_t half = 0;  // 0: no rotation
};

}  // namespace deepinfer
