// Row-wise pieces shared by several CPU kernels: quantisers, RMSNorm, RoPE, each on one row. Contracts: ops/quantize.h,
// norm.h, rope.h.
#pragma once

#include "backend/cpu/vec.h"
#include "base/planted.h"
#include "numerics/math.h"

namespace deepinfer::DI_ISA {

DI_INLINE float max_abs(const bf16* x, int64_t count) {
  uint32_t largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t magnitude = x[i].bits & 0x7FFFu;
    if (magnitude > largest) largest = magnitude;
  }
  return bits_to_float(largest << 16);
}

// Divides by a power of two (exact): s = 2^(byte - 127), byte 1..254.
DI_INLINE float inverse_pow2(uint8_t byte) {
  return byte == 254 ? 0x1p-127f : bits_to_float(static_cast<uint32_t>(254 - byte) << 23);
}

// One block of 32: its scale byte and codes; spec 2.2.
DI_INLINE uint8_t quantize_e4m3_block(const bf16* x, uint8_t* codes) {
  float amax = max_abs(x, 32);
  if (amax < 1e-4f) amax = 1e-4f;
  const uint8_t byte = pow2_scale_byte(amax, kInverse448);
  const float inverse = inverse_pow2(byte);
  for (int i = 0; i < 32; ++i) codes[i] = to_e4m3(to_float(x[i]) * inverse);
  return byte;
}

// Spec 2.2 as fake quantisation of a whole row.
DI_INLINE void act_quant_row(const bf16* x, bf16* out, int64_t d) {
  for (int64_t b = 0; b < d; b += 32) {
    uint8_t codes[32];
    const float scale = e8m0_to_float(quantize_e4m3_block(x + b, codes));
    for (int i = 0; i < 32; i += 16) {
      const u32x16 code = widen_u8(codes + i);
      store_bf16(out + b + i, decode_e4m3(code) * splat(scale));
    }
  }
}

// Spec 2.3: codes 0..15, one a byte.
DI_INLINE uint8_t quantize_e2m1_block32(const bf16* x, uint8_t* codes) {
  float amax = max_abs(x, 32);
  if (amax < 6 * 0x1p-126f) amax = 6 * 0x1p-126f;
  const uint8_t byte = pow2_scale_byte(amax, kInverse6);
  const float inverse = inverse_pow2(byte);
  for (int i = 0; i < 32; ++i) codes[i] = to_e2m1(to_float(x[i]) * inverse);
  return byte;
}

// Spec 2.4: the scale is an E4M3 code.
DI_INLINE uint8_t quantize_e2m1_block16(const bf16* x, uint8_t* codes) {
  float amax = max_abs(x, 16);
  if (amax < 6 * 0x1p-9f) amax = 6 * 0x1p-9f;
  const uint8_t code = to_e4m3(amax / 6.0f);
  const float scale = e4m3_to_float(code);
  for (int i = 0; i < 16; ++i) codes[i] = to_e2m1(to_float(x[i]) / scale);
  return code;
}

// mean of squares, 16 partial sums.
DI_INLINE float mean_square(const bf16* x, int64_t d) {
  f32x16 sum = {};
  int64_t i = 0;
  for (; i + 16 <= d; i += 16) {
    const f32x16 v = load_bf16(x + i);
    sum = sum + v * v;
  }
  if (i < d) {
    bf16 padded[16] = {};
    std::memcpy(padded, x + i, static_cast<size_t>(d - i) * sizeof(bf16));
    const f32x16 v = load_bf16(padded);
    sum = sum + v * v;
  }
  return sum_by_halves(sum) / static_cast<float>(d);
}

DI_INLINE float reciprocal_sqrt(float x) { return 1.0f / __builtin_sqrtf(x); }

DI_INLINE void rms_norm_row(const bf16* x, const bf16* weight, float eps, bf16* y, int64_t d) {
  if (planted(Fault::norm_eps)) eps = eps < 1e-10f ? 1e-6f : 1e-20f;
  const float r = reciprocal_sqrt(mean_square(x, d) + eps);
  int64_t i = 0;
  for (; i + 16 <= d; i += 16) store_bf16(y + i, load_bf16(weight + i) * (load_bf16(x + i) * splat(r)));
  for (; i < d; ++i) y[i] = to_bf16(to_float(weight[i]) * (to_float(x[i]) * r));
}

// Rotates the last 2 * half values of a head; sign -1 is the inverse.
DI_INLINE void rope_head(bf16* x, int64_t head_dim, const float* cos, const float* sin, int64_t half, float sign) {
  bf16* p = x + head_dim - 2 * half;
  for (int64_t j = 0; j < half; ++j) {
    bf16& first = p[planted(Fault::rope_halves) ? j : 2 * j];
    bf16& second = p[planted(Fault::rope_halves) ? j + half : 2 * j + 1];
    const float a = to_float(first), b = to_float(second);
    const float c = cos[j], s = sin[j] * sign;
    first = to_bf16(a * c - b * s);
    second = to_bf16(a * s + b * c);
  }
}

}  // namespace deepinfer::DI_ISA
