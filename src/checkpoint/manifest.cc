#include "checkpoint/manifest.h"

#include <algorithm>
#include <cmath>

namespace deepinfer {
namespace {

// Scale of the synthetic values: either a standard deviation, or a gain over the square root of the inputs.
struct Spread {
  double value;
  bool is_gain;
};
constexpr Spread gain(double value) { return {value, true}; }
constexpr Spread deviation(double value) { return {value, false}; }

int64_t ceil32(int64_t n) { return (n + 31) / 32; }

class Builder {
 public:
  explicit Builder(const ModelConfig& config) : c_(config) {}

  std::vector<ManifestEntry> build() {
    const int64_t d = c_.hidden_size;
    bf16("embed.weight", Part::embedding, {c_.vocab_size, d}, deviation(0.12));
    bf16("head.weight", Part::head, {c_.vocab_size, d}, gain(3.0));
    norm("norm", Part::head, d, 1.0);
    for (int layer = 0; layer < c_.num_hidden_layers; ++layer) {
      layer_ = layer;
      const std::string prefix = fmt::format("layers.{}.", layer);
      block(prefix, c_.n_routed_experts);
      const LayerRole& role = c_.layers[static_cast<size_t>(layer)];
      if (role.owns_kv) compressor(prefix + "attn.", role.compress_ratio);
      if (role.selects) indexer(prefix + "attn.", role.owns_kv);
      if (role.engram >= 0) engram(prefix + "engram.", c_.engram_num_embeddings[static_cast<size_t>(role.engram)]);
    }
    layer_ = -1;
    for (int stage = 0; stage < c_.num_nextn_predict_layers; ++stage) {
      stage_ = stage;
      draft_stage(fmt::format("mtp.{}.", stage));
    }
    stage_ = -1;
    if (c_.has_vision) vision();
    return std::move(out_);
  }

 private:
  void add(const std::string& name, Part part, DType dtype, std::vector<int64_t> shape, Storage storage,
           Spread spread = {}, double mean = 0) {
    ManifestEntry& entry = out_.emplace_back();
    entry.name = name;
    entry.dtype = dtype;
    entry.part = part;
    entry.layer = layer_;
    entry.stage = stage_;
    entry.storage = storage;
    entry.mean = mean;
    entry.std = spread.is_gain ? spread.value / std::sqrt(static_cast<double>(shape[1])) : spread.value;
    entry.shape = std::move(shape);
  }
  void bf16(const std::string& name, Part part, std::vector<int64_t> shape, Spread spread, double mean = 0) {
    add(name, part, DType::bf16, std::move(shape), Storage::bf16, spread, mean);
  }
  void f32(const std::string& name, Part part, std::vector<int64_t> shape, Spread spread, double mean = 0) {
    add(name, part, DType::f32, std::move(shape), Storage::f32, spread, mean);
  }
  void norm(const std::string& owner, Part part, int64_t dim, double mean) {
    bf16(owner + ".weight", part, {dim}, deviation(0.1 * mean), mean);
  }
  // A quantised weight and its scale: `owner`.weight, `owner`.scale.
  void quantised(const std::string& owner, Part part, Storage storage, int64_t rows, int64_t columns, Spread spread) {
    const bool packed = storage == Storage::f4_row;
    add(owner + ".weight", part, packed ? DType::i8 : DType::f8_e4m3, {rows, columns}, storage, spread);
    if (packed) out_.back().shape[1] = columns / 2;
    const int64_t scale_rows = storage == Storage::f8_tile ? ceil32(rows) : rows;
    add(owner + ".scale", part, DType::f8_e8m0, {scale_rows, columns / 32}, Storage::scale);
  }
  void linear(const std::string& owner, Part part, int64_t rows, int64_t columns, double spread) {
    quantised(owner, part, Storage::f8_tile, rows, columns, gain(spread));
  }

  // What every layer and every draft stage has.
  void block(const std::string& p, int64_t experts) {
    const int64_t d = c_.hidden_size;
    const int64_t heads = c_.num_attention_heads * c_.head_dim;
    const int64_t latent = c_.o_groups * c_.o_lora_rank;
    const std::string a = p + "attn.";
    linear(a + "wq_a", Part::attention, c_.q_lora_rank, d, 1.2);
    linear(a + "wq_b", Part::attention, heads, c_.q_lora_rank, 1.4);
    linear(a + "wkv", Part::attention, c_.head_dim, d, 1.35);
    linear(a + "wo_a", Part::attention, latent, heads / c_.o_groups, 1.2);
    linear(a + "wo_b", Part::attention, d, latent, 0.06);
    norm(a + "q_norm", Part::attention, c_.q_lora_rank, 0.97);
    norm(a + "kv_norm", Part::attention, c_.head_dim, 0.4);
    f32(a + "attn_sink", Part::attention, {c_.num_attention_heads}, deviation(1.0), 1.0);
    norm(p + "attn_norm", Part::attention, d, 0.025);
    norm(p + "ffn_norm", Part::gate, d, 0.2);
    const int64_t mixes = (2 + c_.hc_mult) * c_.hc_mult;
    for (const char* which : {"attn", "ffn"}) {
      f32(fmt::format("{}hc_{}_fn", p, which), Part::hyper_connections, {mixes, c_.hc_mult * d}, gain(1.0));
      f32(fmt::format("{}hc_{}_base", p, which), Part::hyper_connections, {mixes}, deviation(1.5));
      f32(fmt::format("{}hc_{}_scale", p, which), Part::hyper_connections, {3}, deviation(0.3), 0.7);
    }
    feed_forward(p + "ffn.", experts);
  }
  void feed_forward(const std::string& f, int64_t experts) {
    const int64_t d = c_.hidden_size;
    const int64_t inner = c_.moe_intermediate_size;
    bf16(f + "gate.weight", Part::gate, {experts, d}, gain(2.9));
    f32(f + "gate.bias", Part::gate, {experts}, deviation(0.15));
    f32(f + "gate.bias_vl", Part::gate, {experts}, deviation(0.15));
    for (int64_t e = 0; e < experts; ++e) {
      const std::string expert = fmt::format("{}experts.{}.", f, e);
      quantised(expert + "w1", Part::routed_experts, Storage::f4_row, inner, d, gain(1.1));
      quantised(expert + "w2", Part::routed_experts, Storage::f4_row, d, inner, gain(0.05));
      quantised(expert + "w3", Part::routed_experts, Storage::f4_row, inner, d, gain(1.1));
    }
    linear(f + "shared_experts.w1", Part::shared_expert, inner, d, 1.1);
    linear(f + "shared_experts.w2", Part::shared_expert, d, inner, 0.05);
    linear(f + "shared_experts.w3", Part::shared_expert, inner, d, 1.1);
  }
  void compressor(const std::string& a, int ratio) {
    bf16(a + "compressor.wkv.weight", Part::compressor, {c_.head_dim, c_.hidden_size}, gain(1.8));
    norm(a + "compressor.norm", Part::compressor, c_.head_dim, 0.1);
    if (ratio > 1) bf16(a + "compressor.wgate.weight", Part::compressor, {c_.head_dim, c_.hidden_size}, gain(40.0));
  }
  void indexer(const std::string& a, bool owns_keys) {
    linear(a + "indexer.wq_b", Part::indexer, c_.index_n_heads * c_.index_head_dim, c_.q_lora_rank, 0.7);
    bf16(a + "indexer.weights_proj.weight", Part::indexer, {c_.index_n_heads, c_.hidden_size}, gain(1.0));
    if (!owns_keys) return;
    bf16(a + "indexer.wk.weight", Part::indexer, {c_.index_head_dim, c_.head_dim}, gain(1.0));
    norm(a + "indexer.k_norm", Part::indexer, c_.index_head_dim, 0.5);
  }
  void engram(const std::string& g, int64_t rows) {
    const int64_t columns = (c_.engram_max_ngram_size - 1) * c_.engram_n_heads * c_.engram_head_dim;
    quantised(g + "embed", Part::engram_table, Storage::f8_row, rows, c_.engram_head_dim, deviation(0.75));
    linear(g + "wkv", Part::engram, (c_.hc_mult + 1) * c_.hidden_size, columns, 0.24);
    bf16(g + "q_weight", Part::engram, {c_.hc_mult, c_.hidden_size}, deviation(0.3), 1.0);
    bf16(g + "k_weight", Part::engram, {c_.hc_mult, c_.hidden_size}, deviation(0.3), 1.0);
  }
  void draft_stage(const std::string& p) {
    const int64_t d = c_.hidden_size;
    block(p, c_.dspark_n_routed_experts);
    if (stage_ == 0) {
      linear(p + "main_proj", Part::draft_head, d, d * static_cast<int64_t>(c_.dspark_target_layer_ids.size()), 0.75);
      norm(p + "main_norm", Part::draft_head, d, 1.0);
    }
    if (stage_ != c_.num_nextn_predict_layers - 1) return;
    norm(p + "norm", Part::draft_head, d, 1.0);
    bf16(p + "markov_head.embed.weight", Part::draft_head, {c_.vocab_size, c_.dspark_markov_rank}, deviation(1.0));
    bf16(p + "markov_head.head.weight", Part::draft_head, {c_.vocab_size, c_.dspark_markov_rank}, gain(2.0));
    bf16(p + "confidence_head.proj.weight", Part::draft_head, {1, d + c_.dspark_markov_rank}, gain(1.0));
  }
  void vision() {
    constexpr int64_t kWidth = 1024, kInner = 2816, kBlocks = 32, kPatch = 588, kUnfolded = 9 * kWidth;
    const int64_t d = c_.hidden_size;
    const auto add_weight = [this](const std::string& name, std::vector<int64_t> shape) {
      add(name, Part::vision, DType::bf16, std::move(shape), Storage::none);
    };
    const auto add_linear = [&](const std::string& owner, int64_t rows, int64_t columns) {
      add_weight(owner + ".weight", {rows, columns});
      add_weight(owner + ".bias", {rows});
    };
    add_linear("vision.patch_embed.proj", kWidth, kPatch);
    add_weight("vision.norm.weight", {kWidth});
    for (int64_t i = 0; i < kBlocks; ++i) {
      const std::string p = fmt::format("vision.blocks.{}.", i);
      add_linear(p + "attn.wqkv", 3 * kWidth, kWidth);
      add_linear(p + "attn.wo", kWidth, kWidth);
      add_weight(p + "mlp.w1.weight", {2 * kInner, kWidth});
      add_weight(p + "mlp.w2.weight", {kWidth, kInner});
      add_weight(p + "norm1.weight", {kWidth});
      add_weight(p + "norm2.weight", {kWidth});
    }
    add_linear("aligner.w1", d, kUnfolded);
    add_linear("aligner.w2", d, d);
    for (const char* name : {"image_start", "image_end", "image_newline"}) add_weight(name, {d});
  }

  const ModelConfig& c_;
  std::vector<ManifestEntry> out_;
  int layer_ = -1;
  int stage_ = -1;
};

}  // namespace

const char* part_name(Part part) {
  constexpr const char* kNames[kParts] = {
      "embedding",     "head",   "attention",    "compressor", "indexer", "hyper_connections", "gate", "routed_experts",
      "shared_expert", "engram", "engram_table", "draft_head", "vision"};
  return kNames[static_cast<size_t>(part)];
}

int64_t ManifestEntry::elements() const {
  int64_t product = 1;
  for (const int64_t dim : shape) product *= dim;
  return product;
}

std::vector<ManifestEntry> manifest(const ModelConfig& config) { return Builder(config).build(); }

}  // namespace deepinfer
