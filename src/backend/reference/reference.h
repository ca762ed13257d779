// The reference kernels: what the contracts in ops/ say, as straight loops, for tests only (di_reference; never linked into the engine).
//
// Sums and elementary functions are in double; the bf16 (and where named float32) roundings of the contracts are kept. Single-threaded; the
// Context is not used. Written to be compared with a formula, not to be fast.
#pragma once

#include <vector>

#include "backend/kernels.h"

namespace deepinfer::reference {

void linear(Context&, const LinearArgs&);
void grouped_linear(Context&, const GroupedLinearArgs&);
void act_quant(Context&, const ActQuantArgs&);
void rms_norm(Context&, const RmsNormArgs&);
void rope_table(Context&, const RopeTableArgs&);
void rope(Context&, const RopeArgs&);
void embed(Context&, const EmbedArgs&);
void hc_seam(Context&, const HcSeamArgs&);
void window_rows(Context&, const WindowRowsArgs&);
void pool_pairs(Context&, const PoolPairsArgs&);
void compress_rows(Context&, const CompressRowsArgs&);
void ring_store(Context&, const RingStoreArgs&);
void index_select(Context&, const IndexSelectArgs&);
void attention(Context&, const AttentionArgs&);
void moe_gate(Context&, const MoeGateArgs&);
void moe_experts(Context&, const MoeExpertsArgs&);
void engram_hash(Context&, const EngramHashArgs&);
void engram_gather(Context&, const EngramGatherArgs&);
void engram_write(Context&, const EngramWriteArgs&);

// bf16 of a double, by way of float32 (where the kernels have their last sum).
inline bf16 round_to_bf16(double x) { return to_bf16(static_cast<float>(x)); }
inline double as_double(bf16 x) { return static_cast<double>(to_float(x)); }
double sigmoid64(double x);

// Values of stored formats, decoded one at a time: weights (linear.h) and rows of the state (quantize.h). E8M0 byte 0 counts as zero (linear.h).
double e8m0_value(uint8_t byte);
double weight_value(const Matrix& w, int64_t n, int64_t k);
double window_value(const std::byte* row, int64_t d, int64_t i);
double index_key_value(const std::byte* row, int64_t d, int64_t i);
double compressed_value(const std::byte* row, int64_t d, int64_t i);

// One row of `d` values into the stored forms of quantize.h.
void encode_window_row(const bf16* x, int64_t d, std::byte* row);
void encode_index_key_row(const bf16* x, int64_t d, std::byte* row);
void encode_compressed_row(const bf16* x, int64_t d, std::byte* row);

// Spec 2.6 and 3 on one row or head; y may be x.
void rms_norm_row(const bf16* x, const bf16* weight, float eps, int64_t d, bf16* y);
void rope_head(bf16* x, int64_t head_dim, const float* cos, const float* sin, int64_t half, bool inverse);

// Spec 4.1, steps 3 to 6: token t's pre, post and comb (args.entered) from its 24 mixes.
void split_mixes(const HcSeamArgs& args, int64_t t, const double* m);

// One position's cos and sin.
void rope_row(int64_t position, const float* frequencies, int64_t half, float* cos, float* sin);

}  // namespace deepinfer::reference
