// Declarations of one instruction set's kernels (namespace DI_ISA); cpu/table.cc gathers them.
#pragma once

#include "backend/kernels.h"

namespace deepinfer::DI_ISA {

void linear(Context& context, const LinearArgs& args);
void grouped_linear(Context& context, const GroupedLinearArgs& args);
void act_quant(Context& context, const ActQuantArgs& args);
void rms_norm(Context& context, const RmsNormArgs& args);
void rope_table(Context& context, const RopeTableArgs& args);
void rope(Context& context, const RopeArgs& args);
void embed(Context& context, const EmbedArgs& args);
void hc_seam(Context& context, const HcSeamArgs& args);
void window_rows(Context& context, const WindowRowsArgs& args);
void pool_pairs(Context& context, const PoolPairsArgs& args);
void compress_rows(Context& context, const CompressRowsArgs& args);
void index_select(Context& context, const IndexSelectArgs& args);
void attention(Context& context, const AttentionArgs& args);
void moe_gate(Context& context, const MoeGateArgs& args);
void moe_experts(Context& context, const MoeExpertsArgs& args);
void engram_hash(Context& context, const EngramHashArgs& args);
void engram_gather(Context& context, const EngramGatherArgs& args);
void engram_write(Context& context, const EngramWriteArgs& args);
void ring_store(Context& context, const RingStoreArgs& args);

extern const Kernels kTable;

}  // namespace deepinfer::DI_ISA
