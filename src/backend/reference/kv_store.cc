#include "backend/ops/kv_store.h"

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {

void window_rows(Context&, const WindowRowsArgs& args) {
  const int64_t d = args.kv.cols;
  std::vector<bf16> row(static_cast<size_t>(d));
  for (int64_t t = 0; t < args.kv.rows; ++t) {
    rms_norm_row(args.kv.row(t), args.norm_weight, args.eps, d, row.data());
    rope_head(row.data(), d, args.cos + t * args.half, args.sin + t * args.half, args.half, false);
    encode_window_row(row.data(), d, args.out + t * window_row_bytes(d));
  }
}

void pool_pairs(Context&, const PoolPairsArgs& args) {
  for (int64_t p = 0; p < args.pairs; ++p) {
    for (int64_t i = 0; i < args.d; ++i) {
      const double z0 = static_cast<double>(args.z0[p][i]), z1 = static_cast<double>(args.z1[p][i]);
      const double e0 = std::exp(z0 - std::max(z0, z1)), e1 = std::exp(z1 - std::max(z0, z1));
      const double u =
          e0 / (e0 + e1) * static_cast<double>(args.k0[p][i]) + e1 / (e0 + e1) * static_cast<double>(args.k1[p][i]);
      args.out.row(p)[i] = round_to_bf16(u);
    }
  }
}

void compress_rows(Context&, const CompressRowsArgs& args) {
  const int64_t d = args.latent.cols, key_d = args.index_key.cols;
  std::vector<bf16> row(static_cast<size_t>(std::max(d, key_d)));
  std::vector<float> cos(static_cast<size_t>(args.half)), sin(static_cast<size_t>(args.half));
  for (int64_t j = 0; j < args.latent.rows; ++j) {
    rope_row(args.positions[j], args.frequencies, args.half, cos.data(), sin.data());

    std::copy(args.latent.row(j), args.latent.row(j) + d, row.begin());
    rope_head(row.data(), d, cos.data(), sin.data(), args.half, false);
    encode_compressed_row(row.data(), d, args.kv_out[j]);

    rms_norm_row(args.index_key.row(j), args.key_norm_weight, args.eps, key_d, row.data());
    rope_head(row.data(), key_d, cos.data(), sin.data(), args.half, false);
    encode_index_key_row(row.data(), key_d, args.key_out[j]);
  }
}

void ring_store(Context&, const RingStoreArgs& args) {
  for (int64_t run = 0; run < args.run_count; ++run) {
    const RunView& view = args.runs[run];
    for (int64_t i = 0; i < view.rows; ++i) {  // a later position replaces an older one in its slot
      const std::byte* row = args.step_rows + (view.first_row + i) * args.row_bytes;
      std::copy(row, row + args.row_bytes, args.rings[run] + (view.start + i) % args.ring_rows * args.row_bytes);
    }
  }
}

}  // namespace deepinfer::reference
