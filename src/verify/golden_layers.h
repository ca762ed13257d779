// The ".L" tensors of a case, loaded and checked, and which layers have their golden inputs.
//
// Threading: values. Source: golden/README.md, index.json's glossary.
#pragma once

#include <array>
#include <vector>

#include "verify/golden_data.h"

namespace deepinfer {

// Tensors that the file does not have are empty. Rows are the file's rows; columns are flat.
struct GoldenLayer {
  Golden<bf16> attn_in, attn_out, ffn_in, ffn_out, x_in, x_mid, x_out, engram_out;
  Golden<float> pre_out, engram_gate, gate_w;
  std::array<Golden<float>, 6> hc;  // attn pre, post, comb; ffn pre, post, comb
  Golden<int32_t> gate_idx, engram_hash;
  Golden<int32_t> topk;
  Golden<float> topk_last;
  Golden<bf16> index_score;
  Golden<uint8_t> candidates;
};

// All layers of a case whose tensors have `rows` rows, of positions `positions` of a sequence. Lists of topk are checked to
// be sets of rows that their queries can see, so that they may be forced upon attention.
Result<std::vector<GoldenLayer>> load_layers(const GoldenCase& golden, const ModelConfig& config,
                                             const std::vector<int64_t>& positions);

// Layers whose golden inputs and whose source's golden inputs are there: attn_in (sublayers), or the stream and the mix
// entering them (layers).
std::vector<bool> layers_with_attn_in(const std::vector<GoldenLayer>& layers, const ModelConfig& config);
std::vector<bool> layers_with_stream(const std::vector<GoldenLayer>& layers, const ModelConfig& config);

// Compressed rows that a query at `position` sees in a layer.
inline int64_t visible_rows(const ModelConfig& config, int layer, int64_t position) {
  return (position + 1) / std::max(1, config.layers[static_cast<size_t>(layer)].compress_ratio);
}

}  // namespace deepinfer
