// The indexer: scores of compressed rows for every query, candidate blocks, and the selection of the top k.
//
// scores     d[h][r] = bf16(q_h . key_r); e = bf16(relu(d) * w_h); score[r] = bf16(sum_h e[h][r]), h ascending from +0.       Spec 6.3
//            Query of position i sees rows r < (i + 1) / ratio; others are not scored.                                            6.4
// candidates (a source) blocks of `block_size` rows score the maximum of their rows; the block of the newest visible row counts as +infinity;
//            the best `candidate_blocks` are kept, lowest block on ties.                                                           6.5
// under candidates (a Reindex layer) only rows of kept blocks are scored.
// selection  the k best scores, lowest row first on ties, written in ascending row order; the rest of the list is -1.
// Rounding   dot products as in linear.h (order over index_head_dim), then the bf16 roundings above.
// Families   portable = avx2 = avx512, bit for bit. -infinity never wins a place; NaN cannot occur from finite inputs.
#pragma once

#include "backend/ops/types.h"

namespace deepinfer {

// Compressed rows of one source of one sequence: pages of `page_rows` rows; a page holds the compressed rows, then the index key rows.
struct PagedRows {
  std::byte* const* pages = nullptr;
  int64_t page_rows = 0;
  int64_t kv_bytes = 0;   // of a compressed row
  int64_t key_bytes = 0;  // of an index key row

  std::byte* kv(int64_t row) const { return pages[row / page_rows] + (row % page_rows) * kv_bytes; }
  std::byte* key(int64_t row) const {
    return pages[row / page_rows] + page_rows * kv_bytes + (row % page_rows) * key_bytes;
  }
};

// Kept candidate blocks per query: ascending block numbers.
struct CandidateLists {
  int32_t* blocks = nullptr;  // [tokens, capacity]
  int32_t* counts = nullptr;  // [tokens]; -1: every block is kept (more room than blocks)
  int64_t capacity = 0;
};

struct IndexSelectArgs {
  Rows<const bf16> q;        // [tokens, heads * head_dim], rotated and quantised
  Rows<const bf16> weights;  // [tokens, heads], bf16(bf16(weights_proj x) * factor)
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t ratio = 1;
  const RunView* runs = nullptr;
  const PagedRows* rows = nullptr;  // [runs] of this layer's source
  int64_t run_count = 0;
  int64_t block_size = 0;
  bool publish_candidates = false;
  bool use_candidates = false;
  CandidateLists candidates;
  Rows<int32_t> selected;  // [tokens, k]
  // Probes only: bf16 scores as float, -infinity where not visible or no candidate; [tokens, score columns].
  Rows<float> scores;
  // Row scratch for scores: the arena holds max_rows floats a thread.
  int64_t max_rows = 0;
};

}  // namespace deepinfer
