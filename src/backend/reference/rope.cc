#include "backend/ops/rope.h"

#include <cmath>

#include "backend/reference/reference.h"

namespace deepinfer::reference {

void rope_row(int64_t position, const float* frequencies, int64_t half, float* cos, float* sin) {
  for (int64_t j = 0; j < half; ++j) {
    const float angle = static_cast<float>(position) * frequencies[j];
    cos[j] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sin[j] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void rope_table(Context&, const RopeTableArgs& args) {
  for (int64_t i = 0; i < args.count; ++i) {
    rope_row(args.positions[i], args.frequencies, args.half, args.cos + i * args.half, args.sin + i * args.half);
  }
}

void rope_head(bf16* x, int64_t head_dim, const float* cos, const float* sin, int64_t half, bool inverse) {
  for (int64_t j = 0; j < half; ++j) {
    bf16& first = x[head_dim - 2 * half + 2 * j];
    bf16& second = x[head_dim - 2 * half + 2 * j + 1];
    const double a = as_double(first), b = as_double(second);
    const double c = static_cast<double>(cos[j]), s = static_cast<double>(inverse ? -sin[j] : sin[j]);
    first = round_to_bf16(a * c - b * s);
    second = round_to_bf16(a * s + b * c);
  }
}

void rope(Context&, const RopeArgs& args) {
  std::vector<std::byte> key(static_cast<size_t>(index_row_bytes(args.head_dim)));
  for (int64_t t = 0; t < args.x.rows; ++t) {
    for (bf16* head = args.x.row(t); head < args.x.row(t) + args.x.cols; head += args.head_dim) {
      rope_head(head, args.head_dim, args.cos + t * args.half, args.sin + t * args.half, args.half, args.inverse);
      if (!args.fp4_block32) continue;
      encode_index_key_row(head, args.head_dim, key.data());
      for (int64_t i = 0; i < args.head_dim; ++i) {
        head[i] = round_to_bf16(index_key_value(key.data(), args.head_dim, i));
      }
    }
  }
}

}  // namespace deepinfer::reference
