// Cuts a configuration down: fewer layers, experts or table rows, with everything that names a layer mapped along.
#include <algorithm>
#include <numeric>

#include "checkpoint/config_fields.h"
#include "checkpoint/engram_constants.h"
#include "checkpoint/synth.h"

namespace deepinfer {
namespace {

class LayerMap {
 public:
  explicit LayerMap(const std::vector<int>& kept) : kept_(kept) {}
  // The new number of a layer, or -1.
  int operator()(int layer) const {
    const auto at = std::lower_bound(kept_.begin(), kept_.end(), layer);
    return at != kept_.end() && *at == layer ? static_cast<int>(at - kept_.begin()) : -1;
  }
  std::vector<int> operator()(const std::vector<int>& layers) const {
    std::vector<int> out;
    for (const int layer : layers) {
      if ((*this)(layer) >= 0) out.push_back((*this)(layer));
    }
    return out;
  }

 private:
  const std::vector<int>& kept_;
};

Status check_layers(const ModelConfig& config, const std::vector<int>& kept, const LayerMap& map) {
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < 0 || kept[i] >= config.num_hidden_layers) {
      return invalid("layers: found {}, accepted: 0 to {}", kept[i], config.num_hidden_layers - 1);
    }
    if (i > 0 && kept[i] <= kept[i - 1])
      return invalid("layers: found {} after {}, accepted: ascending", kept[i], kept[i - 1]);
    const LayerRole& role = config.layers[static_cast<size_t>(kept[i])];
    if (role.compress_ratio == 0) continue;
    if (map(role.kv_source) < 0)
      return invalid("layers: layer {} reads the rows of layer {}, which is missing", kept[i], role.kv_source);
    if (map(role.index_source) < 0) {
      return invalid("layers: layer {} uses the selection of layer {}, which is missing", kept[i], role.index_source);
    }
  }
  return {};
}

Status keep_layers(ModelConfig& config, const std::vector<int>& kept) {
  const LayerMap map(kept);
  DI_RETURN_IF_ERROR(check_layers(config, kept, map));
  const int count = static_cast<int>(kept.size());
  const int dropped = static_cast<int>(config.num_hidden_layers) - count;
  std::vector<int> ratios;
  for (const int layer : kept) ratios.push_back(config.compress_ratios[static_cast<size_t>(layer)]);
  ratios.insert(ratios.end(), static_cast<size_t>(config.num_nextn_predict_layers), 0);
  config.compress_ratios = ratios;
  config.kv_source_layer_ids = map(config.kv_source_layer_ids);
  config.index_source_layer_ids = map(config.index_source_layer_ids);
  if (config.candidate_source_layer_id >= 0) config.candidate_source_layer_id = map(config.candidate_source_layer_id);
  if (config.candidate_source_layer_id < 0) config.candidate_topk_blocks = config.candidate_block_size = 0;
  config.engram_layer_ids = map(config.engram_layer_ids);
  std::vector<int>& taps = config.dspark_target_layer_ids;
  if (std::vector<int> mapped = map(taps); mapped.size() == taps.size()) {
    taps = std::move(mapped);
  } else {
    if (taps.front() < dropped) {
      return invalid(
          "layers: dspark_target_layer_ids has layer {}, {} before the last; accepted: all of these layers, or at "
          "least {} layers",
          taps.front(), config.num_hidden_layers - 1 - taps.front(), config.num_hidden_layers - taps.front());
    }
    for (int& tap : taps) tap -= dropped;
  }
  config.num_hidden_layers = count;
  return {};
}

}  // namespace

Result<ModelConfig> synth_config(const ModelConfig& original, const SynthChanges& changes) {
  if (const auto constants = engram_constants(original); !constants.ok()) return constants.status();
  ModelConfig config = original;
  config.has_vision = false;
  if (!changes.layers.empty()) DI_RETURN_IF_ERROR(keep_layers(config, changes.layers));
  if (changes.experts != 0) {
    const int64_t least = std::max(config.num_experts_per_tok, config.dspark_num_experts_per_tok);
    if (changes.experts < least || changes.experts > kMaxExperts) {
      return invalid("experts: found {}, accepted: {} (experts of a token) to {}", changes.experts, least, kMaxExperts);
    }
    config.n_routed_experts = changes.experts;
    config.dspark_n_routed_experts = std::min(config.dspark_n_routed_experts, changes.experts);
  }
  if (changes.engram_rows != 0) {
    const int64_t columns = (config.engram_max_ngram_size - 1) * config.engram_n_heads;
    constexpr int64_t kMaxRows = int64_t{1} << 31;
    if (changes.engram_rows < 1 || changes.engram_rows > kMaxRows) {
      return invalid("engram-rows: found {}, accepted: 1 to {}", changes.engram_rows, kMaxRows);
    }
    config.engram_vocab_size = std::max<int64_t>(1, changes.engram_rows / columns);
  }
  config.engram_num_embeddings.clear();
  for (const std::vector<uint64_t>& primes : engram_primes(config)) {
    config.engram_num_embeddings.push_back(
        static_cast<int64_t>(std::accumulate(primes.begin(), primes.end(), uint64_t{0})));
  }
  DI_RETURN_IF_ERROR(check_config(config, "the resulting configuration"));
  return config;
}

}  // namespace deepinfer
