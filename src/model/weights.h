// ModelWeights: the checkpoint's tensors, bound once to the places where forward uses them. Views only: bytes stay where they are mapped.
//
// Names are the checkpoint's (spec 12). Threading: constant after binding; lives no longer than the Checkpoint.
#pragma once

#include <optional>
#include <vector>

#include "backend/kernels.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/engram_constants.h"

namespace deepinfer {

struct HcWeights {
  const float* fn = nullptr;
  const float* base = nullptr;
  const float* scale = nullptr;
};

struct CompressorWeights {
  Matrix wkv;
  Matrix wgate;  // ratio 2 only
  const bf16* norm = nullptr;
};

struct IndexerWeights {
  Matrix wq_b, weights_proj;
  Matrix wk;  // owners of keys only
  const bf16* k_norm = nullptr;
};

struct AttentionWeights {
  Matrix wq_a, wq_b, wkv, wo_a, wo_b;
  const bf16* q_norm = nullptr;
  const bf16* kv_norm = nullptr;
  const float* attn_sink = nullptr;
  std::optional<CompressorWeights> compressor;
  std::optional<IndexerWeights> indexer;
};

struct MoeWeights {
  Matrix gate;
  const float* bias = nullptr;
  const float* bias_vl = nullptr;
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;
  int64_t experts_per_token = 0;
};

struct EngramWeights {
  const uint8_t* codes = nullptr;
  const uint8_t* scales = nullptr;
  Matrix wkv;
  const bf16* q_weight = nullptr;
  const bf16* k_weight = nullptr;
  EngramConstants constants;
};

// One block: a backbone layer or a draft stage.
struct BlockWeights {
  LayerRole role;
  HcWeights hc_attn, hc_ffn;
  const bf16* attn_norm = nullptr;
  const bf16* ffn_norm = nullptr;
  AttentionWeights attn;
  MoeWeights ffn;
  std::optional<EngramWeights> engram;
};

struct DraftWeights {
  Matrix main_proj;
  const bf16* main_norm = nullptr;
  std::vector<BlockWeights> stages;
  const bf16* norm = nullptr;
  const bf16* markov_embed = nullptr;
  Matrix markov_head;
  Matrix confidence;
};

struct ModelWeights {
  const bf16* embed = nullptr;
  Matrix head;
  const bf16* norm = nullptr;
  std::vector<BlockWeights> layers;
  DraftWeights draft;

  // Fails only if the Engram constants of the config do not add up.
  static Result<ModelWeights> bind(const Checkpoint& checkpoint);
};

}  // namespace deepinfer
