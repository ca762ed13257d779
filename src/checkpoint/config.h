// ModelConfig: the released config.json (nested text_config, quantization_config) as a struct, checked field by field,
// and what each layer does, derived from it.
//
// Names are those of the file. Unknown fields, missing fields, wrong types and values that the engine cannot run are
// errors that name the field (as "text_config.hidden_size"), what was found and what is accepted. Source: spec sections
// 1, 1.1 and 13.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

// YaRN parameters of layers with a compression ratio (spec 3).
struct RopeScaling {
  double factor = 0;
  double beta_fast = 0;
  double beta_slow = 0;
  int64_t original_max_position_embeddings = 0;
};

// What one backbone layer does (spec 1.1). Layer numbers are -1 where there is none.
struct LayerRole {
  int compress_ratio = 0;         // 0: window only; 1 or 2: tokens per compressed row of the source it reads
  int kv_source = -1;             // the layer whose compressed rows it attends to
  int index_source = -1;          // the layer whose selection it uses
  bool owns_kv = false;           // compresses and owns index keys ("Full")
  bool selects = false;           // scores and selects itself ("Full" or "Reindex")
  bool candidate_source = false;  // publishes candidate blocks
  bool uses_candidates = false;   // "Reindex" under the candidates of the source
  int engram = -1;                // index into engram_layer_ids
  int tap = -1;                   // index into dspark_target_layer_ids
};

struct ModelConfig {
  // top level
  int bos_token_id = 0, eos_token_id = 0, pad_token_id = 0, image_token_id = 0;
  // text_config
  int64_t vocab_size = 0, hidden_size = 0, moe_intermediate_size = 0, num_hidden_layers = 0;
  int64_t num_attention_heads = 0, head_dim = 0, qk_rope_head_dim = 0, q_lora_rank = 0, o_lora_rank = 0, o_groups = 0;
  float swiglu_limit = 0, rms_norm_eps = 0;
  int64_t max_position_embeddings = 0;
  double rope_theta = 0, compress_rope_theta = 0;
  RopeScaling rope_scaling;
  int64_t n_routed_experts = 0, num_experts_per_tok = 0;
  float routed_scaling_factor = 0;
  int64_t sliding_window = 0;
  std::vector<int> compress_ratios;  // num_hidden_layers + num_nextn_predict_layers entries
  std::vector<int> kv_source_layer_ids, index_source_layer_ids;
  int64_t index_n_heads = 0, index_head_dim = 0, index_topk = 0;
  int candidate_source_layer_id = -1;  // -1: no candidate blocks
  int64_t candidate_topk_blocks = 0, candidate_block_size = 0;
  int64_t hc_mult = 0, hc_sinkhorn_iters = 0;
  float hc_eps = 0;
  std::vector<int> engram_layer_ids;
  std::vector<int64_t> engram_num_embeddings;
  int64_t engram_max_ngram_size = 0, engram_vocab_size = 0, engram_n_heads = 0, engram_head_dim = 0;
  int engram_pad_token_id = 0;
  int64_t engram_compressed_vocab_size = 0;
  int64_t num_nextn_predict_layers = 0, dspark_block_size = 0;
  int dspark_noise_token_id = 0;
  std::vector<int> dspark_target_layer_ids;
  int64_t dspark_markov_rank = 0, dspark_n_routed_experts = 0, dspark_num_experts_per_tok = 0;
  bool has_vision = false;  // config.json has a vision_config: its tensors are expected in the index, and never read

  std::vector<LayerRole> layers;  // derived, one a backbone layer

  // Positions that a rejected draft block may have written beyond the kept length: 2 x (block + 1) (design: "State is a
  // value").
  int64_t max_rollback() const { return 2 * (dspark_block_size + 1); }
  // The first ratio-1 KV source: layers below it are the encoder, from it up the decoder (spec 10). -1 if there is
  // none.
  int decoder_start() const;
};

// Parses and checks. `where` names the source in messages (a path).
Result<ModelConfig> parse_config(std::string_view json, const std::string& where);
Result<ModelConfig> read_config(const std::string& path);
// The inverse: config.json text in the released layout.
std::string config_to_json(const ModelConfig& config);

}  // namespace deepinfer
