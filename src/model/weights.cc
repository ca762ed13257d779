#include "model/weights.h"

namespace deepinfer {
namespace {

// Binds tensors under one prefix.
struct Binder {
  const Checkpoint& checkpoint;
  std::string prefix;

  template <typename T>
  const T* vector(const std::string& name) const {
    return checkpoint.tensor(prefix + name).as<T>();
  }
  Matrix matrix(const std::string& name) const {
    const TensorView& w = checkpoint.tensor(prefix + name + ".weight");
    Matrix m;
    m.data = w.data;
    m.n = w.shape[0];
    m.k = w.shape[1];
    if (w.dtype == DType::bf16) return m;
    m.kind = w.dtype == DType::i8 ? WeightKind::fp4_row : WeightKind::fp8_tile;
    if (m.kind == WeightKind::fp4_row) m.k *= 2;
    m.scale = vector<uint8_t>(name + ".scale");
    return m;
  }
  Binder at(const std::string& more) const { return {checkpoint, prefix + more}; }
};

ExpertWeights bind_expert(const Binder& b) { return {b.matrix("w1"), b.matrix("w2"), b.matrix("w3")}; }

HcWeights bind_hc(const Binder& b, const std::string& which) {
  return {b.vector<float>("hc_" + which + "_fn"), b.vector<float>("hc_" + which + "_base"),
          b.vector<float>("hc_" + which + "_scale")};
}

AttentionWeights bind_attention(const Binder& b, const LayerRole& role) {
  AttentionWeights w;
  w.wq_a = b.matrix("wq_a");
  w.wq_b = b.matrix("wq_b");
  w.wkv = b.matrix("wkv");
  w.wo_a = b.matrix("wo_a");
  w.wo_b = b.matrix("wo_b");
  w.q_norm = b.vector<bf16>("q_norm.weight");
  w.kv_norm = b.vector<bf16>("kv_norm.weight");
  w.attn_sink = b.vector<float>("attn_sink");
  if (role.owns_kv) {
    CompressorWeights c;
    c.wkv = b.matrix("compressor.wkv");
    if (role.compress_ratio == 2) c.wgate = b.matrix("compressor.wgate");
    c.norm = b.vector<bf16>("compressor.norm.weight");
    w.compressor = c;
  }
  if (role.selects) {
    IndexerWeights i;
    i.wq_b = b.matrix("indexer.wq_b");
    i.weights_proj = b.matrix("indexer.weights_proj");
    if (role.owns_kv) {
      i.wk = b.matrix("indexer.wk");
      i.k_norm = b.vector<bf16>("indexer.k_norm.weight");
    }
    w.indexer = i;
  }
  return w;
}

BlockWeights bind_block(const Binder& b, const LayerRole& role, int64_t experts, int64_t experts_per_token) {
  BlockWeights w;
  w.role = role;
  w.hc_attn = bind_hc(b, "attn");
  w.hc_ffn = bind_hc(b, "ffn");
  w.attn_norm = b.vector<bf16>("attn_norm.weight");
  w.ffn_norm = b.vector<bf16>("ffn_norm.weight");
  w.attn = bind_attention(b.at("attn."), role);
  const Binder f = b.at("ffn.");
  w.ffn.gate = f.matrix("gate");
  w.ffn.bias = f.vector<float>("gate.bias");
  w.ffn.bias_vl = f.vector<float>("gate.bias_vl");
  w.ffn.experts_per_token = experts_per_token;
  for (int64_t e = 0; e < experts; ++e) w.ffn.experts.push_back(bind_expert(f.at(fmt::format("experts.{}.", e))));
  w.ffn.shared = bind_expert(f.at("shared_experts."));
  return w;
}

}  // namespace

Result<ModelWeights> ModelWeights::bind(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const Binder top{checkpoint, ""};
  ModelWeights w;
  w.embed = top.vector<bf16>("embed.weight");
  w.head = top.matrix("head");
  w.norm = top.vector<bf16>("norm.weight");
  DI_ASSIGN_OR_RETURN(std::vector<EngramConstants> constants, engram_constants(config));
  for (size_t l = 0; l < config.layers.size(); ++l) {
    const LayerRole& role = config.layers[l];
    const Binder b = top.at(fmt::format("layers.{}.", l));
    w.layers.push_back(bind_block(b, role, config.n_routed_experts, config.num_experts_per_tok));
    if (role.engram < 0) continue;
    EngramWeights e;
    e.codes = b.vector<uint8_t>("engram.embed.weight");
    e.scales = b.vector<uint8_t>("engram.embed.scale");
    e.wkv = b.matrix("engram.wkv");
    e.q_weight = b.vector<bf16>("engram.q_weight");
    e.k_weight = b.vector<bf16>("engram.k_weight");
    e.constants = constants[static_cast<size_t>(role.engram)];
    w.layers.back().engram = e;
  }
  const int64_t stages = config.num_nextn_predict_layers;
  for (int64_t s = 0; s < stages; ++s) {
    const Binder b = top.at(fmt::format("mtp.{}.", s));
    w.draft.stages.push_back(
        bind_block(b, LayerRole(), config.dspark_n_routed_experts, config.dspark_num_experts_per_tok));
    if (s == 0) {
      w.draft.main_proj = b.matrix("main_proj");
      w.draft.main_norm = b.vector<bf16>("main_norm.weight");
    }
    if (s == stages - 1) {
      w.draft.norm = b.vector<bf16>("norm.weight");
      w.draft.markov_embed = b.vector<bf16>("markov_head.embed.weight");
      w.draft.markov_head = b.matrix("markov_head.head");
      w.draft.confidence = b.matrix("confidence_head.proj");
    }
  }
  return w;
}

}  // namespace deepinfer
