// The table of kernels: one function per operation, filled once per instruction set. The contracts are the headers in ops/.
//
// A process picks one table at start and uses it for every token count. All CPU tables here belong to one arithmetic family: they agree
// bit for bit. Threading: the tables are constant; an op spreads over context.pool and returns when it is done.
#pragma once

#include <string_view>
#include <vector>

#include "backend/ops/attention.h"
#include "backend/ops/embed.h"
#include "backend/ops/engram.h"
#include "backend/ops/hc_seam.h"
#include "backend/ops/index_select.h"
#include "backend/ops/kv_store.h"
#include "backend/ops/linear.h"
#include "backend/ops/moe.h"
#include "backend/ops/norm.h"
#include "backend/ops/quantize.h"
#include "backend/ops/rope.h"
#include "base/status.h"

namespace deepinfer {

struct Kernels {
  std::string_view name;  // "portable", "avx2", "avx512", "reference"

  void (*linear)(Context&, const LinearArgs&);
  void (*grouped_linear)(Context&, const GroupedLinearArgs&);
  void (*act_quant)(Context&, const ActQuantArgs&);
  void (*rms_norm)(Context&, const RmsNormArgs&);
  void (*rope_table)(Context&, const RopeTableArgs&);
  void (*rope)(Context&, const RopeArgs&);
  void (*embed)(Context&, const EmbedArgs&);
  void (*hc_seam)(Context&, const HcSeamArgs&);
  void (*window_rows)(Context&, const WindowRowsArgs&);
  void (*pool_pairs)(Context&, const PoolPairsArgs&);
  void (*compress_rows)(Context&, const CompressRowsArgs&);
  void (*index_select)(Context&, const IndexSelectArgs&);
  void (*attention)(Context&, const AttentionArgs&);
  void (*moe_gate)(Context&, const MoeGateArgs&);
  void (*moe_experts)(Context&, const MoeExpertsArgs&);
  void (*engram_hash)(Context&, const EngramHashArgs&);
  void (*engram_gather)(Context&, const EngramGatherArgs&);
  void (*engram_write)(Context&, const EngramWriteArgs&);
  void (*ring_store)(Context&, const RingStoreArgs&);
};

// The tables that this machine can run, best first.
std::vector<const Kernels*> cpu_kernels();
// By name; unsupported if the machine lacks the instructions, invalid_argument (with the accepted names) if there is no such table.
Result<const Kernels*> cpu_kernels_named(std::string_view name);
// Straight loops in double precision where it matters: what the contracts say, for tests only.
const Kernels& reference_kernels();

}  // namespace deepinfer
