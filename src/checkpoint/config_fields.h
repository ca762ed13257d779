// The fields of config.json, described once: order, names, types and the values accepted alone. Reading and writing
// visit the same description; what must hold between fields is in config_check.cc.
//
// A visitor V offers: text / flag / number fields with a fixed value, integer, integers, real32, real64, begin / end
// for a nested object, and ignored_* for fields of the released file that have no part in inference. Source: spec
// section 13.
#pragma once

#include <cstdint>
#include <limits>

#include "checkpoint/config.h"

namespace deepinfer {

// Upper limits keep every product of dimensions far below 2^63 and the list of tensors in memory.
inline constexpr int64_t kMaxDim = int64_t{1} << 20;
inline constexpr int64_t kMaxVocab = int64_t{1} << 24;
inline constexpr int64_t kMaxLayers = 256;
inline constexpr int64_t kMaxExperts = 4096;

template <typename V>
void visit_quantization(V& v) {
  v.begin("quantization_config");
  v.fixed_text("quant_method", "fp8");
  v.fixed_text("activation_scheme", "dynamic");
  v.fixed_integers("weight_block_size", {32, 32});
  v.fixed_text("scale_fmt", "ue8m0");
  v.fixed_text("expert_dtype", "fp4");
  v.end();
}

// The vision tower is switched off; its shapes are those of the release, so nothing else is accepted.
template <typename V>
void visit_vision(V& v) {
  v.fixed_text("model_type", "deepseek_v41_vision");
  v.fixed_integer("num_hidden_layers", 32);
  v.fixed_integer("hidden_size", 1024);
  v.fixed_integer("num_attention_heads", 16);
  v.fixed_integer("intermediate_size", 2816);
  v.fixed_integer("patch_size", 14);
  v.fixed_integer("rope_theta", 10000);
  v.fixed_integer("downsample_ratio", 3);
  v.fixed_integer("max_image_tokens", 1024);
  v.fixed_integer("min_pixels", 295936);
  v.fixed_null("max_wh_ratio");
}

template <typename V, typename Config>
void visit_attention(V& v, Config& c) {
  v.integer("num_attention_heads", c.num_attention_heads, 1, 4096);
  v.fixed_integer("num_key_value_heads", 1);
  v.integer("head_dim", c.head_dim, 32, 4096, 32);
  v.integer("qk_rope_head_dim", c.qk_rope_head_dim, 2, 4096, 2);
  v.integer("q_lora_rank", c.q_lora_rank, 32, kMaxDim, 32);
  v.integer("o_lora_rank", c.o_lora_rank, 1, kMaxDim);
  v.integer("o_groups", c.o_groups, 1, 4096);
  v.fixed_text("hidden_act", "silu");
  v.real("swiglu_limit", c.swiglu_limit, 1e-6, 1e6);
  v.real("rms_norm_eps", c.rms_norm_eps, 1e-30, 1.0);
  v.fixed_flag("attention_bias", false);
  v.ignored_real("attention_dropout", 0.0);
  v.ignored_real("initializer_range", 0.02);
  v.ignored_flag("use_cache", true);
  v.fixed_flag("tie_word_embeddings", false);
  v.integer("max_position_embeddings", c.max_position_embeddings, 1, int64_t{1} << 30);
  v.real("rope_theta", c.rope_theta, 1.5, 1e12);
  v.begin("rope_scaling");
  v.fixed_text("rope_type", "yarn");
  v.real("factor", c.rope_scaling.factor, 1.0, 1e6);
  v.real("beta_fast", c.rope_scaling.beta_fast, 1e-3, 1e6);
  v.real("beta_slow", c.rope_scaling.beta_slow, 1e-3, 1e6);
  v.integer("original_max_position_embeddings", c.rope_scaling.original_max_position_embeddings, 1, int64_t{1} << 30);
  v.end();
}

template <typename V, typename Config>
void visit_experts(V& v, Config& c) {
  v.integer("n_routed_experts", c.n_routed_experts, 1, kMaxExperts);
  v.fixed_integer("n_shared_experts", 1);
  v.integer("num_experts_per_tok", c.num_experts_per_tok, 1, kMaxExperts);
  v.fixed_text("scoring_func", "sqrtsoftplus");
  v.fixed_text("topk_method", "noaux_tc");
  v.fixed_flag("norm_topk_prob", true);
  v.real("routed_scaling_factor", c.routed_scaling_factor, 1e-6, 1e6);
}

template <typename V, typename Config>
void visit_sparse_attention(V& v, Config& c) {
  v.integer("sliding_window", c.sliding_window, 1, kMaxDim);
  v.integers("compress_ratios", c.compress_ratios, 0, 2, 2 * kMaxLayers);
  v.real("compress_rope_theta", c.compress_rope_theta, 1.5, 1e12);
  v.integers("kv_source_layer_ids", c.kv_source_layer_ids, 0, kMaxLayers, kMaxLayers);
  v.integers("index_source_layer_ids", c.index_source_layer_ids, 0, kMaxLayers, kMaxLayers);
  v.integer("index_n_heads", c.index_n_heads, 1, 4096);
  v.integer("index_head_dim", c.index_head_dim, 32, 4096, 32);
  v.integer("index_topk", c.index_topk, 1, kMaxDim);
  v.integer("candidate_source_layer_id", c.candidate_source_layer_id, -1, kMaxLayers);
  v.integer("candidate_topk_blocks", c.candidate_topk_blocks, 0, int64_t{1} << 30);
  v.integer("candidate_block_size", c.candidate_block_size, 0, kMaxDim);
}

template <typename V, typename Config>
void visit_extras(V& v, Config& c) {
  v.fixed_integer("hc_mult", 4, &c.hc_mult);
  v.integer("hc_sinkhorn_iters", c.hc_sinkhorn_iters, 1, 1000);
  v.real("hc_eps", c.hc_eps, 1e-30, 1.0);
  v.integers("engram_layer_ids", c.engram_layer_ids, 0, kMaxLayers, 64);
  v.integers("engram_num_embeddings", c.engram_num_embeddings, 1, int64_t{1} << 40, 64);
  v.integer("engram_max_ngram_size", c.engram_max_ngram_size, 2, 8);
  v.integer("engram_vocab_size", c.engram_vocab_size, 1, int64_t{1} << 31);
  v.integer("engram_n_heads", c.engram_n_heads, 1, 64);
  v.integer("engram_head_dim", c.engram_head_dim, 32, 4096, 32);
  v.integer("engram_pad_token_id", c.engram_pad_token_id, 0, kMaxVocab);
  v.integer("engram_compressed_vocab_size", c.engram_compressed_vocab_size, 1, kMaxVocab);
  v.integer("num_nextn_predict_layers", c.num_nextn_predict_layers, 1, 16);
  v.integer("dspark_block_size", c.dspark_block_size, 1, 64);
  v.integer("dspark_noise_token_id", c.dspark_noise_token_id, 0, kMaxVocab);
  v.integers("dspark_target_layer_ids", c.dspark_target_layer_ids, 0, kMaxLayers, 16);
  v.integer("dspark_markov_rank", c.dspark_markov_rank, 1, kMaxDim);
  v.integer("dspark_n_routed_experts", c.dspark_n_routed_experts, 1, kMaxExperts);
  v.integer("dspark_num_experts_per_tok", c.dspark_num_experts_per_tok, 1, kMaxExperts);
}

// The whole file. `Config` is ModelConfig (reading) or const ModelConfig (writing).
template <typename V, typename Config>
void visit_config(V& v, Config& c) {
  v.fixed_texts("architectures", {"DeepseekV41ForCausalLM"});  // first: another architecture is refused by its name
  v.fixed_text("model_type", "deepseek_v41");
  v.fixed_text("dtype", "bfloat16");
  v.optional_text("transformers_version", "5.6.0");
  v.integer("bos_token_id", c.bos_token_id, 0, kMaxVocab);
  v.integer("eos_token_id", c.eos_token_id, 0, kMaxVocab);
  v.integer("pad_token_id", c.pad_token_id, 0, kMaxVocab);
  v.integer("image_token_id", c.image_token_id, 0, kMaxVocab);
  visit_quantization(v);
  v.begin("text_config");
  v.fixed_text("model_type", "deepseek_v41_text");
  v.integer("vocab_size", c.vocab_size, 1, kMaxVocab);
  v.integer("hidden_size", c.hidden_size, 32, kMaxDim, 32);
  v.integer("moe_intermediate_size", c.moe_intermediate_size, 32, kMaxDim, 32);
  v.integer("num_hidden_layers", c.num_hidden_layers, 1, kMaxLayers);
  visit_attention(v, c);
  visit_experts(v, c);
  visit_sparse_attention(v, c);
  visit_extras(v, c);
  v.end();
  if (v.optional_begin("vision_config", c.has_vision)) {
    visit_vision(v);
    v.end();
  }
}

// What must hold between fields; fills config.layers. `where` names the source.
Status check_config(ModelConfig& config, const std::string& where);

}  // namespace deepinfer
