// Probe: looks into a forward pass, and may change what it sees. Tests and `deepinfer verify` feed golden inputs to one sublayer or one
// layer through it; no other path through the model exists. Without a probe nothing of this runs.
//
// Every call names a point and a layer and hands out the tensor itself: rows are the step's rows (runs one after the other; from the layer
// where a replayed suffix is cut out, only the suffix rows), columns as the golden data name them. Writing into it changes what follows.
#pragma once

#include "backend/ops/index_select.h"
#include "backend/ops/types.h"

namespace deepinfer {

enum class Point {
  engram_in,    // bf16 [rows, 4 * d]: the stream before an Engram layer
  engram_hash,  // int64 [rows, columns]
  engram_gate,  // float [rows, 4], to read only
  engram_out,   // bf16 [rows, 4 * d]
  x_in,         // bf16 [rows, 4 * d]: the stream entering a block
  pre_in,       // float [rows, 4]: the pre mix handed to it
  hc_attn_pre,
  hc_attn_post,
  hc_attn_comb,  // float [rows, 4 | 4 | 16]
  attn_in,       // bf16 [rows, d]
  attn_q,        // bf16 [rows, heads * head_dim], rotated
  index_score,   // float [rows, score columns]; asked for by wants_scores
  topk,          // int32 [rows, k]: selected compressed rows, ascending, -1 behind
  attn_out,      // bf16 [rows, d]
  x_mid,         // bf16 [rows, 4 * d]
  hc_ffn_pre,
  hc_ffn_post,
  hc_ffn_comb,
  ffn_in,       // bf16 [rows, d]
  gate_idx,     // int32 [rows, experts per token]
  gate_w,       // float [rows, experts per token]
  ffn_out,      // bf16 [rows, d]
  x_out,        // bf16 [rows, 4 * d]
  pre_out,      // float [rows, 4]
  main_hidden,  // bf16 [rows, taps * d]
  logits,       // float [wanted rows, vocab]
  draft_x,      // bf16 [block rows, 4 * d]: the stream leaving draft stage `layer`
};

class Probe {
 public:
  virtual ~Probe() = default;
  virtual void at(Point, int /*layer*/, Rows<bf16>) {}
  virtual void at(Point, int /*layer*/, Rows<float>) {}
  virtual void at(Point, int /*layer*/, Rows<int32_t>) {}
  virtual void at(Point, int /*layer*/, Rows<int64_t>) {}
  // The candidate blocks that a source layer has published for `rows` rows; may be overwritten.
  virtual void candidates(int /*layer*/, int64_t /*rows*/, CandidateLists&) {}
  // Room for the scores of an index source, [rows, columns]; without data: not wanted.
  virtual Rows<float> wants_scores(int /*layer*/, int64_t /*rows*/) { return {}; }
};

}  // namespace deepinfer
