#include "state/layout.h"

#include "backend/ops/quantize.h"

namespace deepinfer {
namespace {

// The first layer that replay may cut: nothing behind it owns rows or hashes tokens, since it would see a suffix only (spec 10).
int replay_start(const ModelConfig& config) {
  const int start = config.decoder_start();
  const auto behind = [&](const std::vector<int>& layers) { return !layers.empty() && layers.back() > start; };
  return behind(config.kv_source_layer_ids) || behind(config.engram_layer_ids) ? -1 : start;
}

}  // namespace

std::shared_ptr<const StateLayout> StateLayout::make(const ModelConfig& config, bool drafts) {
  auto layout = std::make_shared<StateLayout>();
  StateLayout& l = *layout;
  l.window = config.sliding_window;
  l.rollback = config.max_rollback();
  l.ring_rows = l.window + l.rollback;
  l.head_dim = config.head_dim;
  l.window_row_bytes = deepinfer::window_row_bytes(config.head_dim);
  l.layers = config.num_hidden_layers;
  l.draft_stages = drafts ? config.num_nextn_predict_layers : 0;
  l.decoder_start = replay_start(config);
  l.kv_row_bytes = compressed_row_bytes(config.head_dim);
  l.key_row_bytes = index_row_bytes(config.index_head_dim);
  l.carry_rows = l.rollback / 2 + 1;
  l.carry_row_floats = 2 * config.head_dim;
  l.tail_live = config.engram_max_ngram_size > 0 ? config.engram_max_ngram_size - 1 : 0;
  l.tail_rows = l.tail_live + l.rollback;
  int64_t offset = l.rings() * l.ring_bytes();
  offset = (offset + 63) / 64 * 64;
  for (const int layer : config.kv_source_layer_ids) {
    SourceLayout source{layer, config.compress_ratios[static_cast<size_t>(layer)], -1};
    if (source.ratio > 1) {
      source.carry_offset = offset;
      offset += l.carry_rows * l.carry_row_floats * static_cast<int64_t>(sizeof(float));
    }
    l.sources.push_back(source);
  }
  l.tail_offset = offset;
  l.fixed_bytes = offset + l.tail_rows * static_cast<int64_t>(sizeof(int32_t));
  return layout;
}

int64_t StateLayout::pages_for(int64_t tokens) const {
  int64_t pages = 0;
  for (const SourceLayout& source : sources) pages += (tokens / source.ratio + page_rows - 1) / page_rows;
  return pages;
}

int StateLayout::source_of(int layer) const {
  for (size_t s = 0; s < sources.size(); ++s) {
    if (sources[s].layer == layer) return static_cast<int>(s);
  }
  return -1;
}

}  // namespace deepinfer
