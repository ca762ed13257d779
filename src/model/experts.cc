// Mixture of experts of one block (spec 7).
#include "model/forward.h"

namespace deepinfer {

Status Forward::experts(const BlockWeights& w, int layer) {
  const ModelConfig& c = config();
  const MoeWeights& m = w.ffn;
  const int64_t experts = static_cast<int64_t>(m.experts.size()), k = m.experts_per_token;
  linear_f32(view(b_.h, c.hidden_size), m.gate, view(b_.gate_logits, experts));
  MoeGateArgs gate;
  gate.logits = view(b_.gate_logits, experts);
  gate.bias = m.bias;
  gate.bias_vl = m.bias_vl;
  gate.image = draft_ ? nullptr : b_.image;
  gate.route_scale = c.routed_scaling_factor;
  gate.index = view(b_.gate_idx, k);
  gate.weight = view(b_.gate_w, k);
  kernels().moe_gate(context_, gate);
  probe(Point::gate_idx, layer, gate.index);
  probe(Point::gate_w, layer, gate.weight);
  if (!model_.checkpoint_->scales_checked()) DI_RETURN_IF_ERROR(check_experts(w, layer, k));

  MoeExpertsArgs args;
  args.xq = view(b_.hq, c.hidden_size);
  args.index = gate.index;
  args.weight = gate.weight;
  args.experts = m.experts.data();
  args.expert_count = experts;
  args.shared = &m.shared;
  args.limit = c.swiglu_limit;
  args.out = view(b_.y, c.hidden_size);
  kernels().moe_experts(context_, args);
  return {};
}

// A checkpoint with too many scales to scan at load: those of an expert are looked at when it is chosen for the first time.
Status Forward::check_experts(const BlockWeights& w, int layer, int64_t per_token) {
  std::vector<bool>& checked =
      model_.experts_checked_[static_cast<size_t>(draft_ ? model_.layout_->layers + layer : layer)];
  checked.resize(w.ffn.experts.size());
  for (int64_t i = 0; i < rows_ * per_token; ++i) {
    const int32_t e = b_.gate_idx[i];
    if (checked[static_cast<size_t>(e)]) continue;
    for (const char* part : {"w1", "w2", "w3"}) {
      const std::string name = fmt::format("{}.{}.ffn.experts.{}.{}.scale", draft_ ? "mtp" : "layers", layer, e, part);
      DI_RETURN_IF_ERROR(model_.checkpoint_->check_scale(model_.checkpoint_->tensor(name)));
    }
    checked[static_cast<size_t>(e)] = true;
  }
  return {};
}

}  // namespace deepinfer
