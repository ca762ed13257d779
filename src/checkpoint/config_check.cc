// What must hold between the fields of config.json, and the roles of the layers that follow from them (spec 1.1, 6, 8,
// 9).
#include <algorithm>

#include "checkpoint/config.h"
#include "checkpoint/config_fields.h"

namespace deepinfer {
namespace {

// The largest number of expert slots (layers x experts) that the list of tensors is built for; the release has 15744.
constexpr int64_t kMaxExpertSlots = int64_t{1} << 18;

class Checker {
 public:
  Checker(ModelConfig& config, const std::string& where) : c_(config), where_(where) {}

  Status run() {
    DI_RETURN_IF_ERROR(shapes());
    DI_RETURN_IF_ERROR(experts());
    DI_RETURN_IF_ERROR(token_ids());
    DI_RETURN_IF_ERROR(layer_lists());
    DI_RETURN_IF_ERROR(candidates());
    return roles();
  }

 private:
  template <typename... Args>
  Status refuse(const char* field, fmt::format_string<Args...> text, Args&&... args) const {
    return invalid("{}: text_config.{}: {}", where_, field, fmt::format(text, std::forward<Args>(args)...));
  }
  Status at_most(const char* field, int64_t found, const char* other, int64_t limit) const {
    if (found <= limit) return {};
    return refuse(field, "found {}, accepted: at most {} = {}", found, other, limit);
  }

  Status shapes() const {
    DI_RETURN_IF_ERROR(at_most("qk_rope_head_dim", c_.qk_rope_head_dim, "head_dim", c_.head_dim));
    DI_RETURN_IF_ERROR(at_most("qk_rope_head_dim", c_.qk_rope_head_dim, "index_head_dim", c_.index_head_dim));
    if (c_.num_attention_heads % c_.o_groups != 0) {
      return refuse("o_groups", "found {}, accepted: a divisor of num_attention_heads = {}", c_.o_groups,
                    c_.num_attention_heads);
    }
    if (const int64_t group = c_.num_attention_heads * c_.head_dim / c_.o_groups; group % 32 != 0) {
      return refuse("o_groups", "num_attention_heads * head_dim / o_groups = {}, accepted: a multiple of 32", group);
    }
    if (const int64_t latent = c_.o_groups * c_.o_lora_rank; latent % 32 != 0) {
      return refuse("o_lora_rank", "o_groups * o_lora_rank = {}, accepted: a multiple of 32", latent);
    }
    const RopeScaling& yarn = c_.rope_scaling;
    if (yarn.beta_fast < yarn.beta_slow) {
      return refuse("rope_scaling.beta_fast", "found {}, accepted: at least beta_slow = {}", yarn.beta_fast,
                    yarn.beta_slow);
    }
    return {};
  }

  Status experts() const {
    DI_RETURN_IF_ERROR(at_most("num_experts_per_tok", c_.num_experts_per_tok, "n_routed_experts", c_.n_routed_experts));
    DI_RETURN_IF_ERROR(at_most("dspark_num_experts_per_tok", c_.dspark_num_experts_per_tok, "dspark_n_routed_experts",
                               c_.dspark_n_routed_experts));
    const int64_t slots =
        c_.num_hidden_layers * c_.n_routed_experts + c_.num_nextn_predict_layers * c_.dspark_n_routed_experts;
    if (slots > kMaxExpertSlots) {
      return refuse("n_routed_experts", "{} layers make {} experts in all, accepted: at most {}", c_.num_hidden_layers,
                    slots, kMaxExpertSlots);
    }
    return {};
  }

  Status token_id(const char* field, int64_t id) const {
    if (id < c_.vocab_size) return {};
    return invalid("{}: {}: found {}, accepted: a token id below text_config.vocab_size = {}", where_, field, id,
                   c_.vocab_size);
  }
  Status token_ids() const {
    DI_RETURN_IF_ERROR(token_id("bos_token_id", c_.bos_token_id));
    DI_RETURN_IF_ERROR(token_id("eos_token_id", c_.eos_token_id));
    DI_RETURN_IF_ERROR(token_id("pad_token_id", c_.pad_token_id));
    DI_RETURN_IF_ERROR(token_id("image_token_id", c_.image_token_id));
    DI_RETURN_IF_ERROR(token_id("text_config.engram_pad_token_id", c_.engram_pad_token_id));
    DI_RETURN_IF_ERROR(token_id("text_config.dspark_noise_token_id", c_.dspark_noise_token_id));
    return at_most("engram_compressed_vocab_size", c_.engram_compressed_vocab_size, "vocab_size", c_.vocab_size);
  }

  // Strictly ascending layer numbers of the backbone.
  Status layer_list(const char* field, const std::vector<int>& layers) const {
    for (size_t i = 0; i < layers.size(); ++i) {
      if (layers[i] >= c_.num_hidden_layers) {
        return refuse(field, "found layer {}, accepted: layers 0 to {}", layers[i], c_.num_hidden_layers - 1);
      }
      if (i > 0 && layers[i] <= layers[i - 1]) {
        return refuse(field, "found {} after {}, accepted: ascending layer numbers", layers[i], layers[i - 1]);
      }
    }
    return {};
  }
  Status layer_lists() const {
    const int64_t all = c_.num_hidden_layers + c_.num_nextn_predict_layers;
    if (static_cast<int64_t>(c_.compress_ratios.size()) != all) {
      return refuse("compress_ratios", "found {} entries, accepted: num_hidden_layers + num_nextn_predict_layers = {}",
                    c_.compress_ratios.size(), all);
    }
    for (int64_t i = c_.num_hidden_layers; i < all; ++i) {
      if (ratio(i) != 0)
        return refuse("compress_ratios", "entry {} (a draft stage): found {}, accepted: 0", i, ratio(i));
    }
    DI_RETURN_IF_ERROR(layer_list("kv_source_layer_ids", c_.kv_source_layer_ids));
    DI_RETURN_IF_ERROR(layer_list("index_source_layer_ids", c_.index_source_layer_ids));
    DI_RETURN_IF_ERROR(layer_list("engram_layer_ids", c_.engram_layer_ids));
    DI_RETURN_IF_ERROR(layer_list("dspark_target_layer_ids", c_.dspark_target_layer_ids));
    if (c_.dspark_target_layer_ids.empty())
      return refuse("dspark_target_layer_ids", "found an empty list, accepted: at least one layer");
    if (c_.engram_num_embeddings.size() != c_.engram_layer_ids.size()) {
      return refuse("engram_num_embeddings", "found {} entries, accepted: one for each of the {} engram_layer_ids",
                    c_.engram_num_embeddings.size(), c_.engram_layer_ids.size());
    }
    for (const int layer : c_.kv_source_layer_ids) {
      if (ratio(layer) == 0)
        return refuse("kv_source_layer_ids", "layer {} has compress_ratio 0, accepted: 1 or 2", layer);
      if (position(c_.index_source_layer_ids, layer) < 0) {
        return refuse("index_source_layer_ids", "layer {} of kv_source_layer_ids is missing: a KV source also selects",
                      layer);
      }
    }
    for (const int layer : c_.index_source_layer_ids) {
      if (ratio(layer) == 0)
        return refuse("index_source_layer_ids", "layer {} has compress_ratio 0, accepted: 1 or 2", layer);
    }
    return {};
  }

  Status candidates() const {
    const int source = c_.candidate_source_layer_id;
    if (source < 0) {
      if (c_.candidate_topk_blocks != 0) {
        return refuse("candidate_topk_blocks", "found {}, accepted: 0 without a candidate source",
                      c_.candidate_topk_blocks);
      }
      if (c_.candidate_block_size != 0) {
        return refuse("candidate_block_size", "found {}, accepted: 0 without a candidate source",
                      c_.candidate_block_size);
      }
      return {};
    }
    // Candidate blocks are blocks of the source's own rows, so it must own rows; and every index source after it has to
    // mean the same rows, so no other KV source may follow.
    if (c_.kv_source_layer_ids.empty() || c_.kv_source_layer_ids.back() != source) {
      return refuse("candidate_source_layer_id", "found layer {}, accepted: the last of kv_source_layer_ids, or -1",
                    source);
    }
    if (c_.candidate_topk_blocks < 1) {
      return refuse("candidate_topk_blocks", "found {}, accepted: at least 1", c_.candidate_topk_blocks);
    }
    if (c_.candidate_block_size < 1) {
      return refuse("candidate_block_size", "found {}, accepted: at least 1", c_.candidate_block_size);
    }
    return {};
  }

  Status roles() {
    const auto& kv_sources = c_.kv_source_layer_ids;
    int kv = -1;
    int index = -1;
    c_.layers.assign(static_cast<size_t>(c_.num_hidden_layers), {});
    for (int layer = 0; layer < c_.num_hidden_layers; ++layer) {
      LayerRole& role = c_.layers[static_cast<size_t>(layer)];
      role.engram = position(c_.engram_layer_ids, layer);
      role.tap = position(c_.dspark_target_layer_ids, layer);
      role.compress_ratio = ratio(layer);
      role.owns_kv = position(kv_sources, layer) >= 0;
      role.selects = position(c_.index_source_layer_ids, layer) >= 0;
      if (role.owns_kv) kv = layer;
      if (role.selects) index = layer;
      if (role.compress_ratio == 0) continue;
      // One source at a time is live on the way down the stack: the last one passed. It must have this layer's ratio.
      if (kv < 0 || ratio(kv) != role.compress_ratio) {
        const std::string found = kv < 0 ? "no KV source" : fmt::format("KV source {} with ratio {}", kv, ratio(kv));
        return refuse("compress_ratios",
                      "layer {} has ratio {}, but up to it there is {}; accepted: a source of that ratio in "
                      "kv_source_layer_ids",
                      layer, role.compress_ratio, found);
      }
      role.kv_source = kv;
      role.index_source = index;
      role.candidate_source = layer == c_.candidate_source_layer_id;
      role.uses_candidates = role.selects && !role.owns_kv && kv == c_.candidate_source_layer_id;
    }
    return {};
  }

  int ratio(int64_t layer) const { return c_.compress_ratios[static_cast<size_t>(layer)]; }
  static int position(const std::vector<int>& list, int layer) {
    const auto found = std::find(list.begin(), list.end(), layer);
    return found == list.end() ? -1 : static_cast<int>(found - list.begin());
  }

  ModelConfig& c_;
  const std::string& where_;
};

}  // namespace

int ModelConfig::decoder_start() const {
  for (const int layer : kv_source_layer_ids) {
    if (compress_ratios[static_cast<size_t>(layer)] == 1) return layer;
  }
  return -1;
}

Status check_config(ModelConfig& config, const std::string& where) { return Checker(config, where).run(); }

}  // namespace deepinfer
