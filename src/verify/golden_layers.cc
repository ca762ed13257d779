#include "verify/golden_layers.h"

#include <algorithm>
#include <tuple>

namespace deepinfer {
namespace {

constexpr int64_t kCopies = 4;

Status check_topk(const GoldenCase& golden, const std::string& name, const Golden<int32_t>& topk,
                  const ModelConfig& config, int layer, const std::vector<int64_t>& positions) {
  if (topk.cols > config.index_topk) {
    return invalid("{}: tensor {}: {} columns, at most {} (index_topk) are expected", golden.info().file, name,
                   topk.cols, config.index_topk);
  }
  for (int64_t r = 0; r < topk.rows; ++r) {
    const int64_t visible = visible_rows(config, layer, positions[static_cast<size_t>(r)]);
    std::vector<int32_t> set;
    for (int64_t i = 0; i < topk.cols; ++i) {
      if (topk.row(r)[i] != -1) set.push_back(topk.row(r)[i]);
    }
    std::sort(set.begin(), set.end());
    const bool distinct = std::adjacent_find(set.begin(), set.end()) == set.end();
    if (!distinct || (!set.empty() && (set.front() < 0 || set.back() >= visible))) {
      return invalid("{}: tensor {}: row {} is not a set of rows below {} (or -1)", golden.info().file, name, r,
                     visible);
    }
  }
  return {};
}

Status load_layer(const GoldenCase& golden, const ModelConfig& c, int l, const std::vector<int64_t>& positions,
                  GoldenLayer& out) {
  const auto rows = static_cast<int64_t>(positions.size());
  const std::string dot = fmt::format(".{}", l);
  const int64_t d = c.hidden_size, experts = c.num_experts_per_tok;
  const std::tuple<const char*, Golden<bf16>*, int64_t> streams[] = {
      {"attn_in", &out.attn_in, d},       {"attn_out", &out.attn_out, d},
      {"ffn_in", &out.ffn_in, d},         {"ffn_out", &out.ffn_out, d},
      {"x_in", &out.x_in, kCopies * d},   {"x_mid", &out.x_mid, kCopies * d},
      {"x_out", &out.x_out, kCopies * d}, {"engram_out", &out.engram_out, kCopies * d}};
  for (const auto& [name, tensor, cols] : streams) {
    DI_ASSIGN_OR_RETURN(*tensor, golden.get<bf16>(name + dot, rows, cols));
  }
  const std::tuple<const char*, Golden<float>*, int64_t> mixes[] = {
      {"hc_attn_pre", &out.hc[0], kCopies}, {"hc_attn_post", &out.hc[1], kCopies},
      {"hc_attn_comb", &out.hc[2], 16},     {"hc_ffn_pre", &out.hc[3], kCopies},
      {"hc_ffn_post", &out.hc[4], kCopies}, {"hc_ffn_comb", &out.hc[5], 16},
      {"pre_out", &out.pre_out, kCopies},   {"engram_gate", &out.engram_gate, kCopies},
      {"gate_w", &out.gate_w, experts},     {"topk_last", &out.topk_last, 1}};
  for (const auto& [name, tensor, cols] : mixes) {
    DI_ASSIGN_OR_RETURN(*tensor, golden.get<float>(name + dot, rows, cols));
  }
  DI_ASSIGN_OR_RETURN(out.gate_idx, golden.get<int32_t>("gate_idx" + dot, rows, experts));
  DI_ASSIGN_OR_RETURN(out.engram_hash,
                      golden.get<int32_t>("engram_hash" + dot, rows, (c.engram_max_ngram_size - 1) * c.engram_n_heads));
  DI_ASSIGN_OR_RETURN(out.topk, golden.get<int32_t>("topk" + dot, rows, -1));
  DI_RETURN_IF_ERROR(check_topk(golden, "topk" + dot, out.topk, c, l, positions));
  // Scores and candidates have a column for every compressed row at the end of the case.
  DI_ASSIGN_OR_RETURN(out.index_score, golden.get<bf16>("index_score" + dot, rows, -1));
  DI_ASSIGN_OR_RETURN(out.candidates, golden.get<uint8_t>("candidates" + dot, rows, -1));
  for (const auto& [name, cols] :
       {std::pair<const char*, int64_t>{"index_score", out.index_score.cols}, {"candidates", out.candidates.cols}}) {
    const int64_t needed = visible_rows(c, l, positions.empty() ? -1 : positions.back());
    if (cols != 0 && cols < needed) {
      return invalid("{}: tensor {}{}: {} columns, at least {} are expected", golden.info().file, name, dot, cols,
                     needed);
    }
  }
  return {};
}

// Whether a layer's own inputs and those of the layer whose rows it reads are there.
template <typename Has>
std::vector<bool> with_source(const ModelConfig& config, const Has& has) {
  std::vector<bool> ready(config.layers.size());
  for (size_t l = 0; l < ready.size(); ++l) {
    const int source = config.layers[l].kv_source;
    ready[l] = has(l) && (source < 0 || has(static_cast<size_t>(source)));
  }
  return ready;
}

}  // namespace

Result<std::vector<GoldenLayer>> load_layers(const GoldenCase& golden, const ModelConfig& config,
                                             const std::vector<int64_t>& positions) {
  std::vector<GoldenLayer> layers(config.layers.size());
  for (size_t l = 0; l < layers.size(); ++l)
    DI_RETURN_IF_ERROR(load_layer(golden, config, static_cast<int>(l), positions, layers[l]));
  return layers;
}

std::vector<bool> layers_with_attn_in(const std::vector<GoldenLayer>& layers, const ModelConfig& config) {
  return with_source(config, [&](size_t l) { return !layers[l].attn_in.empty(); });
}

std::vector<bool> layers_with_stream(const std::vector<GoldenLayer>& layers, const ModelConfig& config) {
  return with_source(config, [&](size_t l) {
    if (l > 0 && layers[l - 1].pre_out.empty()) return false;
    if (!layers[l].x_in.empty()) return true;
    if (config.layers[l].engram >= 0) return !layers[l].engram_out.empty();
    return l == 0 || !layers[l - 1].x_out.empty();
  });
}

}  // namespace deepinfer
