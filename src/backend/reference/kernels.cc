#include "backend/kernels.h"

#include "backend/reference/reference.h"

namespace deepinfer {

const Kernels& reference_kernels() {
  static constexpr Kernels table = {"reference",
                                    reference::linear,
                                    reference::grouped_linear,
                                    reference::act_quant,
                                    reference::rms_norm,
                                    reference::rope_table,
                                    reference::rope,
                                    reference::embed,
                                    reference::hc_seam,
                                    reference::window_rows,
                                    reference::pool_pairs,
                                    reference::compress_rows,
                                    reference::index_select,
                                    reference::attention,
                                    reference::moe_gate,
                                    reference::moe_experts,
                                    reference::engram_hash,
                                    reference::engram_gather,
                                    reference::engram_write,
                                    reference::ring_store};
  return table;
}

}  // namespace deepinfer
