// Attention of one block (spec 5): queries, window rows, sparse attention over window and selected rows, grouped output projection.
#include <cmath>

#include "backend/ops/quantize.h"
#include "model/forward.h"

namespace deepinfer {

// qr = q_norm(wq_a x), q = wq_b qr, rotated (5.1).
void Forward::queries(const AttentionWeights& w, bool compressed) {
  const ModelConfig& c = config();
  linear(view(b_.hq, c.hidden_size), w.wq_a, view(b_.qr, c.q_lora_rank));
  RmsNormArgs norm;
  norm.x = view(b_.qr, c.q_lora_rank);
  norm.weight = w.q_norm;
  norm.eps = c.rms_norm_eps;
  norm.y = view(b_.qr, c.q_lora_rank);
  norm.yq = view(b_.qrq, c.q_lora_rank);
  kernels().rms_norm(context_, norm);
  const Rows<bf16> q = view(b_.q, c.num_attention_heads * c.head_dim);
  linear(view(b_.qrq, c.q_lora_rank), w.wq_b, q);
  kernels().rope(context_,
                 {q, c.head_dim, b_.cos[compressed], b_.sin[compressed], c.qk_rope_head_dim / 2, false, false});
}

// kv = kv_norm(wkv x), rotated and quantised to window rows (5.2).
void Forward::window(const AttentionWeights& w, Rows<const bf16> xq, bool compressed) {
  const ModelConfig& c = config();
  linear(xq, w.wkv, view(b_.kv, c.head_dim));
  WindowRowsArgs rows;
  rows.kv = view(b_.kv, c.head_dim);
  rows.norm_weight = w.kv_norm;
  rows.eps = c.rms_norm_eps;
  rows.cos = b_.cos[compressed];
  rows.sin = b_.sin[compressed];
  rows.half = c.qk_rope_head_dim / 2;
  rows.out = b_.window_rows;
  kernels().window_rows(context_, rows);
}

void Forward::attention(const BlockWeights& w, int layer) {
  const ModelConfig& c = config();
  const StateLayout& layout = *model_.layout_;
  const bool compressed = w.role.compress_ratio > 0;
  queries(w.attn, compressed);
  window(w.attn, view(b_.hq, c.hidden_size), compressed);
  const int64_t ring = draft_ ? layout.layers + layer : layer;
  for (int64_t r = 0; r < run_count_; ++r) b_.rings[r] = runs_[static_cast<size_t>(r)].state->ring(ring);
  if (w.role.selects) select(w, layer);

  const int64_t width = c.num_attention_heads * c.head_dim;
  AttentionArgs args;
  args.q = view(b_.q, width);
  args.out = view(b_.o, width);
  args.heads = c.num_attention_heads;
  args.head_dim = c.head_dim;
  args.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  args.sink = w.attn.attn_sink;
  args.columns = draft_ ? WindowColumns::draft : WindowColumns::causal;
  args.window = c.sliding_window;
  args.runs = b_.views;
  args.run_count = run_count_;
  args.step_rows = b_.window_rows;
  args.rings = b_.rings;
  args.ring_rows = layout.ring_rows;
  if (compressed) {
    bind_source(w.role.kv_source);
    args.compressed = b_.paged;
    args.selected = view(b_.selected, c.index_topk);
  }
  args.cos = b_.cos[compressed];
  args.sin = b_.sin[compressed];
  args.half = c.qk_rope_head_dim / 2;
  probe(Point::attn_q, layer, view(b_.q, width));
  kernels().attention(context_, args);
  if (!draft_) {
    kernels().ring_store(context_,
                         {b_.views, run_count_, b_.window_rows, layout.window_row_bytes, b_.rings, layout.ring_rows});
  }

  // wo_a takes the activations as they are, wo_b quantised ones (5.5).
  const Rows<bf16> z = view(b_.z, c.o_groups * c.o_lora_rank);
  kernels().grouped_linear(context_, {view(b_.o, width), w.attn.wo_a, c.o_groups, z});
  kernels().act_quant(context_, {z, z});
  linear(z, w.attn.wo_b, view(b_.y, c.hidden_size));
}

}  // namespace deepinfer
