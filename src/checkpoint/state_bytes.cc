#include "checkpoint/state_bytes.h"

namespace deepinfer {
namespace {

constexpr int64_t kAlignment = 64;  // of the float32 carries behind the byte rings

}  // namespace

StateBytes state_bytes(const ModelConfig& config) {
  const int64_t rollback = config.max_rollback();
  StateBytes bytes;
  bytes.kv_row = config.head_dim / 2 + config.head_dim / 16;
  bytes.index_row = config.index_head_dim / 2 + config.index_head_dim / 32;
  bytes.window_row = config.head_dim + config.head_dim / 32;
  bytes.ring_rows = config.sliding_window + rollback;
  bytes.layer_rings = config.num_hidden_layers * bytes.ring_rows * bytes.window_row;
  bytes.draft_rings = config.num_nextn_predict_layers * bytes.ring_rows * bytes.window_row;
  for (const int layer : config.kv_source_layer_ids) {
    const int ratio = config.compress_ratios[static_cast<size_t>(layer)];
    bytes.per_token += static_cast<double>(bytes.kv_row + bytes.index_row) / ratio;
    if (ratio == 2) bytes.carries += (1 + rollback / 2) * 2 * config.head_dim * static_cast<int64_t>(sizeof(float));
  }
  bytes.ngram_tail = (config.engram_max_ngram_size - 1 + rollback) * static_cast<int64_t>(sizeof(int32_t));
  const int64_t rings = bytes.layer_rings + bytes.draft_rings;
  bytes.per_sequence = (rings + kAlignment - 1) / kAlignment * kAlignment + bytes.carries + bytes.ngram_tail;
  return bytes;
}

int64_t compressed_bytes(const ModelConfig& config, int64_t tokens) {
  const StateBytes bytes = state_bytes(config);
  int64_t total = 0;
  for (const int layer : config.kv_source_layer_ids) {
    total += tokens / config.compress_ratios[static_cast<size_t>(layer)] * (bytes.kv_row + bytes.index_row);
  }
  return total;
}

}  // namespace deepinfer
