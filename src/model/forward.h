// Forward: one step on its way through the model. Private to model/. The stages are in the order that data flows:
//   forward.cc   embedding, the blocks one after the other, the seams between their sublayers, the head
//   engram.cc    n-gram memory            attention.cc  queries, window rows, sparse attention, output projection
//   sources.cc   compressed rows, index keys, selection     experts.cc  gate and experts      draft.cc  draft rings and the draft block
#pragma once

#include "model/model.h"

namespace deepinfer {

// The step's tensors. All of them lie in the arena; `rows` of them are in use.
struct StepBuffers {
  bf16* x = nullptr;        // [rows, 4 * d] residual stream
  HcMix attn_mix, ffn_mix;  // of the current block
  bf16* h = nullptr;        // [rows, d] normed input of the sublayer
  bf16* hq = nullptr;       // the same, quantised
  bf16* y = nullptr;        // [rows, d] output of the sublayer
  bf16* qr = nullptr;       // [rows, q_lora_rank]
  bf16* qrq = nullptr;
  bf16* q = nullptr;  // [rows, heads * head_dim]
  bf16* o = nullptr;
  bf16* kv = nullptr;  // [rows, head_dim]
  std::byte* window_rows = nullptr;
  bf16* z = nullptr;        // [rows, o_groups * o_lora_rank]
  float* pool_k = nullptr;  // [rows, head_dim] ratio-2 projections
  float* pool_z = nullptr;
  bf16* latent = nullptr;       // [rows, head_dim]
  bf16* index_key = nullptr;    // [rows, index_head_dim]
  bf16* index_q = nullptr;      // [rows, index heads * index_head_dim]
  bf16* index_w = nullptr;      // [rows, index heads]
  int32_t* selected = nullptr;  // [rows, index_topk]
  CandidateLists candidates;
  float* gate_logits = nullptr;  // [rows, experts]
  int32_t* gate_idx = nullptr;
  float* gate_w = nullptr;
  bf16* taps = nullptr;         // [rows, taps * d]
  int64_t* hash = nullptr;      // [rows, engram columns]
  bf16* engram_rows = nullptr;  // [rows, engram columns * engram_head_dim]
  bf16* engram_kv = nullptr;    // [rows, 5 * d]
  float* engram_gate = nullptr;
  int32_t* classes = nullptr;  // [runs] tail, then the run's tokens
  float* cos[2] = {};          // [rows, half] window layers, compressed layers
  float* sin[2] = {};
  int64_t* positions = nullptr;
  int32_t* tokens = nullptr;
  uint8_t* image = nullptr;
  RunView* views = nullptr;     // [runs]
  PagedRows* paged = nullptr;   // [runs] of the current source
  std::byte** rings = nullptr;  // [runs] of the current layer
  bf16* head_in = nullptr;      // [logit rows, d]
  bf16* collapsed = nullptr;    // [rows, d] before the last norm
  float* logits = nullptr;      // [logit rows, vocab]

  // Takes everything for `rows` rows and `runs` runs. With a measuring arena, only counts.
  static StepBuffers carve(Arena& arena, const ModelConfig& config, int64_t rows, int64_t runs, int64_t logit_rows);
};

class Forward {
 public:
  Forward(Model& model, std::span<const Run> runs, Probe* probe);

  Result<StepResult> run();
  Result<DraftResult> run_draft(std::span<const DraftRun> drafts);
  Status run_feed(int64_t first_position, Rows<const bf16> main_hidden);

 private:
  // forward.cc
  void set_rows();
  void rope_tables();
  void embed();
  Status block(const BlockWeights& w, int layer);
  void leave();
  void enter(const HcWeights& hc, const bf16* norm, const HcMix& mix, const float* pre, Point x_point, int layer,
             int tap);
  void cut_to_suffix();
  StepResult head();
  // engram.cc
  void classes();
  void store_tail();
  Status engram(const BlockWeights& w, int layer);
  // attention.cc
  void attention(const BlockWeights& w, int layer);
  void queries(const AttentionWeights& w, bool compressed);
  void window(const AttentionWeights& w, Rows<const bf16> xq, bool compressed);
  // sources.cc
  void compress(const BlockWeights& w, int layer);
  void pool(const BlockWeights& w, int source, int64_t& groups);
  void select(const BlockWeights& w, int layer);
  void bind_source(int layer);
  // experts.cc
  Status experts(const BlockWeights& w, int layer);
  Status check_experts(const BlockWeights& w, int layer, int64_t per_token);
  // draft.cc
  void feed_rings(Rows<const bf16> main_hidden);

  const Kernels& kernels() const { return *model_.kernels_; }
  const ModelConfig& config() const { return model_.config(); }
  template <typename T>
  Rows<T> view(T* data, int64_t cols) const {
    return {data, rows_, cols, cols};
  }
  template <typename T>
  void probe(Point point, int layer, Rows<T> rows) {
    if (probe_ != nullptr) probe_->at(point, layer, rows);
  }
  void linear(Rows<const bf16> x, const Matrix& w, Rows<bf16> out);
  void linear_f32(Rows<const bf16> x, const Matrix& w, Rows<float> out);

  Model& model_;
  std::span<const Run> runs_;
  Probe* probe_;
  Arena arena_;
  Context context_;
  StepBuffers b_;
  int64_t rows_ = 0;  // in use now
  int64_t run_count_ = 0;
  const HcMix* pending_ = nullptr;  // the mix by which the last sublayer's output still has to be written back
  bool draft_ = false;              // rows are draft blocks: window lists of drafts, no rings written
};

}  // namespace deepinfer
