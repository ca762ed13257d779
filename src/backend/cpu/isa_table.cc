#include "backend/cpu/isa_kernels.h"

#define DI_STRING_INNER(x) #x
#define DI_STRING(x) DI_STRING_INNER(x)

namespace deepinfer::DI_ISA {

const Kernels kTable = {DI_STRING(DI_ISA_NAME),
                        linear,
                        grouped_linear,
                        act_quant,
                        rms_norm,
                        rope_table,
                        rope,
                        embed,
                        hc_seam,
                        window_rows,
                        pool_pairs,
                        compress_rows,
                        index_select,
                        attention,
                        moe_gate,
                        moe_experts,
                        engram_hash,
                        engram_gather,
                        engram_write,
                        ring_store};

}  // namespace deepinfer::DI_ISA
