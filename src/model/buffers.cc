// Memory of a step: what StepBuffers takes, and how much scratch the operations need on top.
#include <algorithm>
#include <new>

#include "backend/ops/quantize.h"
#include "model/forward.h"

namespace deepinfer {
namespace {

HcMix take_mix(Arena& arena, int64_t rows) {
  return {arena.take<float>(rows * kHcMult), arena.take<float>(rows * kHcMult),
          arena.take<float>(rows * kHcMult * kHcMult)};
}

// Upper bound of what one operation takes from the arena while it runs (backend/cpu).
int64_t op_scratch_bytes(const ModelConfig& c, int64_t rows, int threads, int64_t max_context) {
  const int64_t k = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok) + 1;
  const int64_t experts = std::max(c.n_routed_experts, c.dspark_n_routed_experts) + 2;
  const int64_t moe =
      rows * k * (2 * 8 + 2 * 2 * c.moe_intermediate_size + 2 * c.hidden_size + 5 * 8) + experts * (3 * 8 + 2 * 128);
  const int64_t select = threads * 2 * (max_context + 64) * 4;
  const int64_t linear = c.o_groups * (rows * 2 * 8 + 256) + rows * kHcMixes * 4;
  return std::max({moe, select, linear}) + (1 << 16);
}

int64_t thread_bytes(const ModelConfig& c, int64_t max_matrix_k) {
  const int64_t gemm = 4 * (max_matrix_k + 32) * 4;
  const int64_t columns = c.sliding_window + c.index_topk + c.dspark_block_size + 64;
  const int64_t attention = columns * 8 + 64 * c.head_dim * 4 + c.num_attention_heads * (2 * c.head_dim * 4 + 8);
  const int64_t index = c.index_n_heads * (c.index_head_dim * 4 + 4) + 4 * c.index_head_dim * 4;
  const int64_t rows = std::max(c.hidden_size, c.head_dim) * 2 + c.qk_rope_head_dim * 8;
  const int64_t gate = 2 * std::max(c.n_routed_experts, c.dspark_n_routed_experts) * 4;
  return (std::max({gemm, attention, index, rows, gate}) + 4096 + 4095) / 4096 * 4096;
}

}  // namespace

StepBuffers StepBuffers::carve(Arena& arena, const ModelConfig& c, int64_t rows, int64_t runs, int64_t logit_rows) {
  StepBuffers b;
  const int64_t d = c.hidden_size, heads = c.num_attention_heads * c.head_dim;
  const int64_t half = c.qk_rope_head_dim / 2;
  b.x = arena.take<bf16>(rows * kHcMult * d);
  b.attn_mix = take_mix(arena, rows);
  b.ffn_mix = take_mix(arena, rows);
  b.h = arena.take<bf16>(rows * d);
  b.hq = arena.take<bf16>(rows * d);
  b.y = arena.take<bf16>(rows * d);
  b.qr = arena.take<bf16>(rows * c.q_lora_rank);
  b.qrq = arena.take<bf16>(rows * c.q_lora_rank);
  b.q = arena.take<bf16>(rows * heads);
  b.o = arena.take<bf16>(rows * heads);
  b.kv = arena.take<bf16>(rows * c.head_dim);
  b.window_rows = arena.take<std::byte>(rows * window_row_bytes(c.head_dim));
  b.z = arena.take<bf16>(rows * c.o_groups * c.o_lora_rank);
  b.pool_k = arena.take<float>(rows * c.head_dim);
  b.pool_z = arena.take<float>(rows * c.head_dim);
  b.latent = arena.take<bf16>(rows * c.head_dim);
  b.index_key = arena.take<bf16>(rows * c.index_head_dim);
  b.index_q = arena.take<bf16>(rows * c.index_n_heads * c.index_head_dim);
  b.index_w = arena.take<bf16>(rows * c.index_n_heads);
  b.selected = arena.take<int32_t>(rows * c.index_topk);
  b.candidates.capacity = c.candidate_topk_blocks;
  b.candidates.blocks = arena.take<int32_t>(rows * c.candidate_topk_blocks);
  b.candidates.counts = arena.take<int32_t>(rows);
  const int64_t experts = std::max(c.n_routed_experts, c.dspark_n_routed_experts);
  const int64_t k = std::max(c.num_experts_per_tok, c.dspark_num_experts_per_tok);
  b.gate_logits = arena.take<float>(rows * experts);
  b.gate_idx = arena.take<int32_t>(rows * k);
  b.gate_w = arena.take<float>(rows * k);
  b.taps = arena.take<bf16>(rows * d * static_cast<int64_t>(c.dspark_target_layer_ids.size()));
  const int64_t columns = (c.engram_max_ngram_size - 1) * c.engram_n_heads;
  if (!c.engram_layer_ids.empty()) {
    b.hash = arena.take<int64_t>(rows * columns);
    b.engram_rows = arena.take<bf16>(rows * columns * c.engram_head_dim);
    b.engram_kv = arena.take<bf16>(rows * (kHcMult + 1) * d);
    b.engram_gate = arena.take<float>(rows * kHcMult);
  }
  b.classes = arena.take<int32_t>(rows + runs * std::max<int64_t>(c.engram_max_ngram_size, 1));
  for (int i = 0; i < 2; ++i) {
    b.cos[i] = arena.take<float>(rows * half);
    b.sin[i] = arena.take<float>(rows * half);
  }
  b.positions = arena.take<int64_t>(rows);
  b.tokens = arena.take<int32_t>(rows);
  b.image = arena.take<uint8_t>(rows);
  b.views = arena.take<RunView>(runs);
  b.paged = arena.take<PagedRows>(runs);
  b.rings = arena.take<std::byte*>(runs);
  b.head_in = arena.take<bf16>(logit_rows * d);
  b.collapsed = arena.take<bf16>(rows * d);
  b.logits = arena.take<float>(logit_rows * c.vocab_size);
  return b;
}

Status Model::plan() {
  const ModelConfig& c = config();
  int64_t matrix_k = c.hidden_size * std::max<int64_t>(1, static_cast<int64_t>(c.dspark_target_layer_ids.size()));
  matrix_k = std::max({matrix_k, c.q_lora_rank, c.moe_intermediate_size, c.num_attention_heads * c.head_dim,
                       c.o_groups * c.o_lora_rank, c.hidden_size + c.dspark_markov_rank,
                       (c.engram_max_ngram_size - 1) * c.engram_n_heads * c.engram_head_dim});
  Arena measure;
  StepBuffers::carve(measure, c, limits_.max_step_tokens, limits_.max_runs, limits_.max_logit_rows);
  // Pointer lists of sources.cc (seven a group; a run has at most one group that began before it), and on top of them or of the taps and
  // head rows of draft.cc what one operation takes.
  const int64_t lists = 7 * 8 * (limits_.max_step_tokens + limits_.max_runs) + (1 << 14);
  const int64_t taps = static_cast<int64_t>(c.dspark_target_layer_ids.size()) * c.hidden_size;
  const int64_t draft =
      limits_.max_step_tokens * taps * 2 + (c.hidden_size + c.dspark_markov_rank) * 2 + c.vocab_size * 4;
  arena_bytes_ = measure.peak_bytes() + lists + (limits_.drafts ? draft : 0) +
                 op_scratch_bytes(c, limits_.max_step_tokens, pool_->threads(), limits_.max_context);
  arena_bytes_ = (arena_bytes_ + 4095) / 4096 * 4096;
  thread_scratch_bytes_ = thread_bytes(c, matrix_k);
  const int64_t total = arena_bytes_ + thread_scratch_bytes_ * pool_->threads() + 4096;
  if (total > int64_t{1} << 40)
    return error(Code::resource_exhausted, "a step of {} tokens would need {} bytes of scratch",
                 limits_.max_step_tokens, total);
  memory_.reset(new (std::nothrow) std::byte[static_cast<size_t>(total)]);
  if (memory_ == nullptr) return error(Code::resource_exhausted, "no memory for {} bytes of scratch", total);
  return {};
}

}  // namespace deepinfer
