#include "checkpoint/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/engram_constants.h"
#include "paths.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

Json nano_json() { return Json::parse(read_file(golden("nano/config.json")).value()); }

TEST(Config, ReleasedFileIsWrittenBackByteForByte) {
  const std::string path = golden("released/config.json");
  const auto config = read_config(path);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(config->has_vision);
  EXPECT_EQ(config_to_json(*config), read_file(path).value());
}

TEST(Config, SamplesAreReadAndWrittenBack) {
  for (const char* name : {"nano/config.json", "odd/config.json", "wide/config.json", "wide/config_c96.json"}) {
    const auto config = read_config(golden(name));
    ASSERT_TRUE(config.ok()) << config.status().message();
    Json original = Json::parse(read_file(golden(name)).value());
    original["transformers_version"] = "5.6.0";  // optional, and written always
    EXPECT_EQ(Json::parse(config_to_json(*config)), original) << name;
  }
}

TEST(Config, ReadsTheBundledModel) {
  DI_NEEDS_SHARED();
  const std::string path = shared("models/deepseek-v4.1-tiny/config.json");
  const auto config = read_config(path);
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(Json::parse(config_to_json(*config)), Json::parse(read_file(path).value()));
}

TEST(Config, ValuesOfOdd) {
  const ModelConfig config = read_config(golden("odd/config.json")).value();
  EXPECT_EQ(config.hidden_size, 160);
  EXPECT_EQ(config.hc_mult, 4);
  EXPECT_EQ(config.hc_sinkhorn_iters, 7);
  EXPECT_EQ(config.swiglu_limit, 0.5f);
  EXPECT_EQ(config.rms_norm_eps, 1e-6f);
  EXPECT_EQ(config.hc_eps, 1e-4f);
  EXPECT_EQ(config.rope_theta, 5000.0);
  EXPECT_EQ(config.rope_scaling.beta_fast, 4.0);
  EXPECT_EQ(config.rope_scaling.original_max_position_embeddings, 128);
  EXPECT_EQ(config.candidate_source_layer_id, -1);
  EXPECT_EQ(config.dspark_target_layer_ids, (std::vector<int>{2, 4}));
  EXPECT_EQ(config.max_rollback(), 10);
  EXPECT_EQ(config.decoder_start(), 3);
  EXPECT_FALSE(config.has_vision);
}

// The table of spec 1.1.
TEST(Config, RolesOfTheReleasedLayers) {
  const ModelConfig config = read_config(golden("released/config.json")).value();
  ASSERT_EQ(config.layers.size(), 40u);
  EXPECT_EQ(config.decoder_start(), 20);
  EXPECT_EQ(config.max_rollback(), 12);
  for (int layer = 0; layer < 40; ++layer) {
    const LayerRole& role = config.layers[static_cast<size_t>(layer)];
    const bool reindex = layer > 20 && layer % 4 == 0;
    const bool full = layer == 2 || layer == 8 || layer == 14 || layer == 20;
    EXPECT_EQ(role.compress_ratio, layer < 2 ? 0 : layer < 20 ? 2 : 1) << layer;
    EXPECT_EQ(role.owns_kv, full) << layer;
    EXPECT_EQ(role.selects, full || reindex) << layer;
    EXPECT_EQ(role.kv_source, layer < 2 ? -1 : layer >= 20 ? 20 : (layer - 2) / 6 * 6 + 2) << layer;
    EXPECT_EQ(role.index_source, layer < 20 ? role.kv_source : layer / 4 * 4) << layer;
    EXPECT_EQ(role.candidate_source, layer == 20) << layer;
    EXPECT_EQ(role.uses_candidates, reindex) << layer;
    EXPECT_EQ(role.engram, layer == 1 ? 0 : layer == 14 ? 1 : -1) << layer;
    EXPECT_EQ(role.tap, layer >= 37 ? layer - 37 : -1) << layer;
  }
}

// One change to nano's config.json, and what the message must say.
struct Refusal {
  const char* pointer;
  const char* value;  // JSON
  std::vector<const char*> says;
};

const std::vector<Refusal>& refusals() {
  static const std::vector<Refusal> list = {
      // Not this architecture.
      {"/architectures", R"(["LlamaForCausalLM"])", {"architectures", "LlamaForCausalLM", "DeepseekV41ForCausalLM"}},
      {"/architectures", R"(["DeepseekV4ForCausalLM"])", {"architectures", "DeepseekV4ForCausalLM"}},
      {"/architectures", R"("DeepseekV41ForCausalLM")", {"architectures"}},
      {"/model_type", R"("llama")", {"model_type", "llama", "deepseek_v41"}},
      {"/text_config/model_type", R"("deepseek_v4")", {"text_config.model_type", "deepseek_v4"}},
      {"/dtype", R"("float16")", {"dtype", "float16", "bfloat16"}},
      // Unknown fields, anywhere.
      {"/torch_dtype", R"("bfloat16")", {"\"torch_dtype\"", "unknown field"}},
      {"/text_config/n_group", R"(8)", {"text_config.\"n_group\"", "unknown field", "8"}},
      {"/text_config/rope_scaling/mscale", R"(1.0)", {"text_config.rope_scaling.\"mscale\"", "unknown field"}},
      {"/quantization_config/modules", R"(1)", {"quantization_config.\"modules\"", "unknown field"}},
      // Quantisation exactly as released.
      {"/quantization_config", R"([])", {"quantization_config", "an object"}},
      {"/quantization_config/quant_method", R"("awq")", {"quantization_config.quant_method", "awq", "fp8"}},
      {"/quantization_config/activation_scheme", R"("static")", {"quantization_config.activation_scheme", "static"}},
      {"/quantization_config/weight_block_size",
       R"([128, 128])",
       {"quantization_config.weight_block_size", "[128,128]"}},
      {"/quantization_config/weight_block_size", R"([32.0, 32.0])", {"quantization_config.weight_block_size", "32.0"}},
      {"/quantization_config/scale_fmt", R"("float")", {"quantization_config.scale_fmt", "ue8m0"}},
      {"/quantization_config/expert_dtype", R"("fp8")", {"quantization_config.expert_dtype", "fp8", "fp4"}},
      // Wrong types.
      {"/text_config", R"(3)", {"text_config", "found 3", "an object"}},
      {"/text_config/hidden_size", R"("128")", {"text_config.hidden_size", "\"128\"", "whole number"}},
      {"/text_config/hidden_size", R"(128.0)", {"text_config.hidden_size", "128.0", "whole number"}},
      {"/text_config/hidden_size", R"(1e300)", {"text_config.hidden_size", "1e+300"}},
      {"/text_config/hidden_size", R"(null)", {"text_config.hidden_size", "null"}},
      {"/text_config/hidden_size", R"(18446744073709551615)", {"text_config.hidden_size", "18446744073709551615"}},
      {"/text_config/hidden_size", R"(-128)", {"text_config.hidden_size", "-128"}},
      {"/text_config/rope_theta", R"("10000")", {"text_config.rope_theta", "\"10000\""}},
      {"/text_config/compress_ratios", R"(2)", {"text_config.compress_ratios", "found 2", "a list"}},
      {"/text_config/compress_ratios/3", R"("2")", {"text_config.compress_ratios[3]", "\"2\""}},
      {"/text_config/engram_num_embeddings/0", R"(1362.0)", {"text_config.engram_num_embeddings[0]", "1362.0"}},
      {"/text_config/norm_topk_prob", R"(1)", {"text_config.norm_topk_prob", "found 1", "true"}},
      {"/transformers_version", R"(5)", {"transformers_version", "found 5"}},
      {"/bos_token_id", R"([0, 1])", {"bos_token_id", "[0,1]"}},
      // Values with one accepted meaning.
      {"/text_config/num_key_value_heads", R"(8)", {"text_config.num_key_value_heads", "found 8", "accepted: 1"}},
      {"/text_config/n_shared_experts", R"(2)", {"text_config.n_shared_experts", "accepted: 1"}},
      {"/text_config/hidden_act", R"("gelu")", {"text_config.hidden_act", "gelu", "silu"}},
      {"/text_config/attention_bias", R"(true)", {"text_config.attention_bias", "found true", "accepted: false"}},
      {"/text_config/tie_word_embeddings", R"(true)", {"text_config.tie_word_embeddings", "accepted: false"}},
      {"/text_config/scoring_func", R"("sigmoid")", {"text_config.scoring_func", "sigmoid", "sqrtsoftplus"}},
      {"/text_config/topk_method", R"("greedy")", {"text_config.topk_method", "noaux_tc"}},
      {"/text_config/norm_topk_prob", R"(false)", {"text_config.norm_topk_prob"}},
      {"/text_config/hc_mult", R"(2)", {"text_config.hc_mult", "found 2", "accepted: 4"}},
      {"/text_config/rope_scaling/rope_type", R"("linear")", {"text_config.rope_scaling.rope_type", "linear", "yarn"}},
      // Out of range.
      {"/text_config/vocab_size", R"(0)", {"text_config.vocab_size", "found 0"}},
      {"/text_config/hidden_size", R"(120)", {"text_config.hidden_size", "found 120", "multiple of 32"}},
      {"/text_config/moe_intermediate_size", R"(48)", {"text_config.moe_intermediate_size", "multiple of 32"}},
      {"/text_config/head_dim", R"(80)", {"text_config.head_dim", "multiple of 32"}},
      {"/text_config/q_lora_rank", R"(100)", {"text_config.q_lora_rank", "multiple of 32"}},
      {"/text_config/index_head_dim", R"(48)", {"text_config.index_head_dim", "multiple of 32"}},
      {"/text_config/engram_head_dim", R"(16)", {"text_config.engram_head_dim", "multiple of 32"}},
      {"/text_config/qk_rope_head_dim", R"(31)", {"text_config.qk_rope_head_dim", "multiple of 2"}},
      {"/text_config/swiglu_limit", R"(0)", {"text_config.swiglu_limit", "found 0"}},
      {"/text_config/swiglu_limit", R"(-10.0)", {"text_config.swiglu_limit", "-10.0"}},
      {"/text_config/rms_norm_eps", R"(0.0)", {"text_config.rms_norm_eps"}},
      {"/text_config/hc_eps", R"(1e-50)", {"text_config.hc_eps"}},
      {"/text_config/rope_theta", R"(0)", {"text_config.rope_theta"}},
      {"/text_config/compress_rope_theta", R"(1)", {"text_config.compress_rope_theta"}},
      {"/text_config/routed_scaling_factor", R"(0)", {"text_config.routed_scaling_factor"}},
      {"/text_config/attention_dropout", R"(-0.5)", {"text_config.attention_dropout"}},
      {"/text_config/num_hidden_layers", R"(0)", {"text_config.num_hidden_layers"}},
      {"/text_config/num_hidden_layers", R"(1000000)", {"text_config.num_hidden_layers"}},
      {"/text_config/max_position_embeddings", R"(0)", {"text_config.max_position_embeddings"}},
      {"/text_config/sliding_window", R"(0)", {"text_config.sliding_window"}},
      {"/text_config/index_topk", R"(0)", {"text_config.index_topk"}},
      {"/text_config/hc_sinkhorn_iters", R"(0)", {"text_config.hc_sinkhorn_iters"}},
      {"/text_config/engram_max_ngram_size", R"(1)", {"text_config.engram_max_ngram_size"}},
      {"/text_config/engram_compressed_vocab_size", R"(0)", {"text_config.engram_compressed_vocab_size"}},
      {"/text_config/num_nextn_predict_layers", R"(0)", {"text_config.num_nextn_predict_layers"}},
      {"/text_config/dspark_block_size", R"(0)", {"text_config.dspark_block_size"}},
      {"/text_config/dspark_markov_rank", R"(0)", {"text_config.dspark_markov_rank"}},
      {"/text_config/compress_ratios/2", R"(3)", {"text_config.compress_ratios[2]", "found 3", "0 to 2"}},
      {"/text_config/candidate_source_layer_id", R"(-2)", {"text_config.candidate_source_layer_id", "-2"}},
      // Between fields.
      {"/bos_token_id", R"(512)", {"bos_token_id", "found 512", "vocab_size = 512"}},
      {"/image_token_id", R"(600)", {"image_token_id", "found 600"}},
      {"/text_config/dspark_noise_token_id", R"(512)", {"text_config.dspark_noise_token_id", "found 512"}},
      {"/text_config/engram_pad_token_id", R"(513)", {"text_config.engram_pad_token_id", "found 513"}},
      {"/text_config/engram_compressed_vocab_size",
       R"(513)",
       {"text_config.engram_compressed_vocab_size", "vocab_size = 512"}},
      {"/text_config/qk_rope_head_dim", R"(66)", {"text_config.qk_rope_head_dim", "head_dim = 64"}},
      {"/text_config/num_experts_per_tok", R"(9)", {"text_config.num_experts_per_tok", "n_routed_experts = 8"}},
      {"/text_config/dspark_num_experts_per_tok",
       R"(5)",
       {"text_config.dspark_num_experts_per_tok", "dspark_n_routed_experts = 4"}},
      {"/text_config/o_groups", R"(3)", {"text_config.o_groups", "found 3", "num_attention_heads = 8"}},
      {"/text_config/o_lora_rank", R"(4)", {"text_config.o_lora_rank", "16", "multiple of 32"}},
      {"/text_config/rope_scaling/beta_fast", R"(0.5)", {"text_config.rope_scaling.beta_fast", "beta_slow"}},
      {"/text_config/compress_ratios", R"([0, 0, 2])", {"text_config.compress_ratios", "found 3 entries", "= 13"}},
      {"/text_config/compress_ratios/11", R"(1)", {"text_config.compress_ratios", "entry 11", "draft stage"}},
      {"/text_config/compress_ratios/4",
       R"(1)",
       {"text_config.compress_ratios", "layer 4 has ratio 1", "KV source 3 with ratio 2"}},
      {"/text_config/compress_ratios/1",
       R"(2)",
       {"text_config.compress_ratios", "layer 1 has ratio 2", "no KV source"}},
      {"/text_config/compress_ratios/2", R"(0)", {"text_config.kv_source_layer_ids", "layer 2 has compress_ratio 0"}},
      {"/text_config/kv_source_layer_ids",
       R"([3, 2, 5])",
       {"text_config.kv_source_layer_ids", "2 after 3", "ascending"}},
      {"/text_config/kv_source_layer_ids", R"([2, 2, 5])", {"text_config.kv_source_layer_ids", "2 after 2"}},
      {"/text_config/kv_source_layer_ids", R"([2, 3, 10])", {"text_config.kv_source_layer_ids", "layer 10", "0 to 9"}},
      {"/text_config/kv_source_layer_ids", R"([2, 3, 5, 6])", {"text_config.index_source_layer_ids", "layer 6"}},
      {"/text_config/kv_source_layer_ids", R"([2, 3])", {"text_config.candidate_source_layer_id", "found layer 5"}},
      {"/text_config/index_source_layer_ids", R"([2, 3, 7, 9])", {"text_config.index_source_layer_ids", "layer 5"}},
      {"/text_config/index_source_layer_ids",
       R"([0, 2, 3, 5])",
       {"text_config.index_source_layer_ids", "layer 0 has compress_ratio 0"}},
      {"/text_config/index_source_layer_ids", R"([2, 3, 5, 11])", {"text_config.index_source_layer_ids", "layer 11"}},
      {"/text_config/candidate_source_layer_id", R"(3)", {"text_config.candidate_source_layer_id", "found layer 3"}},
      {"/text_config/candidate_source_layer_id", R"(7)", {"text_config.candidate_source_layer_id", "found layer 7"}},
      {"/text_config/candidate_source_layer_id",
       R"(-1)",
       {"text_config.candidate_topk_blocks", "found 5", "accepted: 0"}},
      {"/text_config/candidate_topk_blocks", R"(0)", {"text_config.candidate_topk_blocks", "at least 1"}},
      {"/text_config/candidate_block_size", R"(0)", {"text_config.candidate_block_size", "at least 1"}},
      {"/text_config/engram_layer_ids", R"([1, 3, 4])", {"text_config.engram_num_embeddings", "found 2 entries", "3"}},
      {"/text_config/engram_layer_ids", R"([3, 1])", {"text_config.engram_layer_ids", "1 after 3"}},
      {"/text_config/engram_layer_ids", R"([1, 10])", {"text_config.engram_layer_ids", "layer 10"}},
      {"/text_config/dspark_target_layer_ids", R"([])", {"text_config.dspark_target_layer_ids", "empty"}},
      {"/text_config/dspark_target_layer_ids", R"([8, 10])", {"text_config.dspark_target_layer_ids", "layer 10"}},
      {"/text_config/n_routed_experts", R"(5000)", {"text_config.n_routed_experts", "5000"}},
      // A vision tower is switched off, so it is expected as released.
      {"/vision_config", R"({"model_type": "other"})", {"vision_config.model_type", "other"}},

  };
  return list;
}

TEST(Config, EveryRefusalNamesTheField) {
  for (const Refusal& refusal : refusals()) {
    Json json = nano_json();
    json[Json::json_pointer(refusal.pointer)] = Json::parse(refusal.value);
    const auto config = parse_config(json.dump(), "dir/config.json");
    ASSERT_FALSE(config.ok()) << refusal.pointer << " = " << refusal.value;
    const std::string& message = config.status().message();
    EXPECT_EQ(message.find("dir/config.json: "), 0u) << message;
    for (const char* part : refusal.says) {
      EXPECT_NE(message.find(part), std::string::npos) << refusal.pointer << ": \"" << message << "\" lacks " << part;
    }
  }
}

TEST(Config, EveryFieldOfTheFileIsRequired) {
  const Json flat = nano_json().flatten();
  int removed = 0;
  for (const auto& [pointer, value] : flat.items()) {
    Json json = nano_json();
    const Json::json_pointer at(pointer);
    if (json[at.parent_pointer()].is_array()) continue;
    json[at.parent_pointer()].erase(at.back());
    const auto config = parse_config(json.dump(), "c");
    ASSERT_FALSE(config.ok()) << pointer;
    EXPECT_NE(config.status().message().find(at.back() + ": this field is missing"), std::string::npos)
        << config.status().message();
    ++removed;
  }
  EXPECT_GE(removed, 60);
}

TEST(Config, VisionConfigMustBeComplete) {
  Json json = Json::parse(read_file(golden("released/config.json")).value());
  json["vision_config"]["patch_size"] = 16;
  EXPECT_NE(parse_config(json.dump(), "c").status().message().find("vision_config.patch_size: found 16"),
            std::string::npos);
  json["vision_config"].erase("patch_size");
  EXPECT_NE(parse_config(json.dump(), "c").status().message().find("vision_config.patch_size: this field is missing"),
            std::string::npos);
  json.erase("vision_config");
  const auto text_only = parse_config(json.dump(), "c");
  ASSERT_TRUE(text_only.ok()) << text_only.status().message();
  EXPECT_FALSE(text_only->has_vision);
}

TEST(Config, RefusesTooManyExpertsInAll) {
  Json json = Json::parse(read_file(golden("released/config.json")).value());
  json["text_config"]["n_routed_experts"] = 4096;
  ASSERT_TRUE(parse_config(json.dump(), "c").ok());
  json["text_config"]["num_hidden_layers"] = 250;
  json["text_config"]["compress_ratios"] = Json(253, 0);
  const auto config = parse_config(json.dump(), "c");
  ASSERT_FALSE(config.ok());
  EXPECT_NE(config.status().message().find("text_config.n_routed_experts"), std::string::npos)
      << config.status().message();
}

TEST(Config, MalformedTextIsRefused) {
  const auto message = [](const std::string& text) {
    const auto config = parse_config(text, "dir/config.json");
    EXPECT_FALSE(config.ok()) << text;
    return config.ok() ? std::string() : config.status().message();
  };
  EXPECT_NE(message("").find("dir/config.json: not valid JSON"), std::string::npos);
  EXPECT_NE(message("{").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message("[]").find("an object"), std::string::npos);
  EXPECT_NE(message("{} {}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message("{\"a\": 1e999}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message("{\"a\": NaN}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message("{\"a\": \"\xff\"}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message(std::string(100000, '[')).find("nested deeper"), std::string::npos);
  std::string twice = read_file(golden("nano/config.json")).value();
  twice.insert(twice.find("\"hidden_size\""), "\"hidden_size\": 64, ");
  EXPECT_NE(message(twice).find("\"hidden_size\": this key appears twice"), std::string::npos);
}

TEST(Config, MissingFileIsNamed) {
  const auto config = read_config("/no/such/config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), Code::not_found);
  EXPECT_NE(config.status().message().find("/no/such/config.json"), std::string::npos);
}

TEST(Config, NoEngramAndNoCandidatesAreAccepted) {
  Json json = nano_json();
  json["text_config"]["engram_layer_ids"] = Json::array();
  json["text_config"]["engram_num_embeddings"] = Json::array();
  const auto config = parse_config(json.dump(), "c");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_TRUE(engram_constants(*config).value().empty());
}

}  // namespace
}  // namespace deepinfer
