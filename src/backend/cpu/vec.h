// Sixteen-lane vectors for the CPU kernels, on the compiler's vector types, so that one text gives the same bits on
// every instruction set: a lane is a lane whether sixteen of them are one register or four.
//
// Everything here is always inlined into a translation unit compiled for one instruction set (DI_ISA).
#pragma once

#include <cstring>

#include "numerics/formats.h"

namespace deepinfer {

typedef float f32x16 __attribute__((vector_size(64)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x4 __attribute__((vector_size(16)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint16_t u16x16 __attribute__((vector_size(32)));
typedef uint8_t u8x16 __attribute__((vector_size(16)));

template <typename V>
DI_INLINE V load(const void* p) {
  V v;
  std::memcpy(&v, p, sizeof(V));
  return v;
}
template <typename V>
DI_INLINE void store(void* p, V v) {
  std::memcpy(p, &v, sizeof(V));
}
DI_INLINE f32x16 splat(float x) { return f32x16{} + x; }
DI_INLINE f32x16 as_float(u32x16 v) { return __builtin_bit_cast(f32x16, v); }
DI_INLINE u32x16 as_bits(f32x16 v) { return __builtin_bit_cast(u32x16, v); }
DI_INLINE f32x16 select(i32x16 mask, f32x16 a, f32x16 b) { return mask ? a : b; }

// The sum by halves that every contract names: l + (l + 8), l + (l + 4), l + (l + 2), l + (l + 1).
DI_INLINE float sum_by_halves(f32x16 v) {
  const f32x8 a = __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7);
  const f32x8 b = __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15);
  const f32x8 s8 = a + b;
  const f32x4 c = __builtin_shufflevector(s8, s8, 0, 1, 2, 3);
  const f32x4 d = __builtin_shufflevector(s8, s8, 4, 5, 6, 7);
  const f32x4 s4 = c + d;
  return (s4[0] + s4[2]) + (s4[1] + s4[3]);
}

// 32 consecutive bf16 as two vectors: the odd and the even elements (lane l: element 2l + 1, element 2l).
DI_INLINE void split_bf16(const bf16* p, f32x16& odd, f32x16& even) {
  const u32x16 v = load<u32x16>(p);
  odd = as_float(v & 0xFFFF0000u);
  even = as_float(v << 16);
}
// 16 consecutive bf16 as floats.
DI_INLINE f32x16 load_bf16(const bf16* p) { return as_float(__builtin_convertvector(load<u16x16>(p), u32x16) << 16); }
// Round to nearest even; finite or infinite values (a NaN keeps a NaN payload).
DI_INLINE u16x16 round_to_bf16(f32x16 x) {
  const u32x16 u = as_bits(x);
  const u32x16 rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  const u32x16 quiet = (u >> 16) | 0x40u;
  const i32x16 nan = (u & 0x7FFFFFFFu) > 0x7F800000u;
  return __builtin_convertvector(nan ? quiet : rounded, u16x16);
}
DI_INLINE void store_bf16(bf16* p, f32x16 x) { store(p, round_to_bf16(x)); }

// E4M3 codes (one in each 32-bit lane, 0..255) to floats.
DI_INLINE f32x16 decode_e4m3(u32x16 code) {
  const u32x16 magnitude = code & 0x7Fu;
  const u32x16 normal = (magnitude << 20) + (120u << 23);
  const u32x16 subnormal = as_bits(__builtin_convertvector(__builtin_bit_cast(i32x16, magnitude), f32x16) * 0x1p-9f);
  u32x16 bits = magnitude < 8u ? subnormal : normal;
  bits = magnitude == 0x7Fu ? (u32x16{} + 0x7FC00000u) : bits;
  return as_float(bits | ((code & 0x80u) << 24));
}

// E2M1 codes (one in each lane, 0..15) to floats.
DI_INLINE f32x16 decode_e2m1(u32x16 code) {
#if defined(__AVX512F__)
  const f32x16 table = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                        -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return __builtin_shuffle(table, __builtin_bit_cast(i32x16, code));  // one permutation instruction
#else
  const u32x16 m = code & 7u;
  const u32x16 normal = (m << 22) + (126u << 23);
  const u32x16 small = m == 0u ? u32x16{} : (u32x16{} + 0x3F000000u);
  const u32x16 bits = m < 2u ? small : normal;
  return as_float(bits | ((code & 8u) << 28));
#endif
}

// numerics/math.h exp32, lane by lane, with the same operations.
DI_INLINE f32x16 exp32x16(f32x16 x) {
  const i32x16 low = ~(i32x16)(x > splat(-87.33654f));
  const i32x16 high = x > splat(88.72283f);
  const i32x16 nan = x != x;
  const f32x16 z = select(low | high, f32x16{}, x);
  const f32x16 n = (z * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f;
  const f32x16 r = (z - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  f32x16 p = splat(0x1.6a23dp-10f);
  p = p * r + 0x1.123a2p-7f;
  p = p * r + 0x1.5558f2p-5f;
  p = p * r + 0x1.555492p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = (r * r) * p + r;
  p = 1.0f + p;
  const i32x16 k = __builtin_convertvector(n, i32x16);
  const i32x16 half = (k - (k >> 31)) >> 1;  // k / 2, towards zero
  const f32x16 a = __builtin_bit_cast(f32x16, (half + 127) << 23);
  const f32x16 b = __builtin_bit_cast(f32x16, (k - half + 127) << 23);
  f32x16 y = (p * a) * b;
  y = select(high, splat(__builtin_huge_valf()), y);
  y = select(low, f32x16{}, y);
  return select(nan, x, y);
}

}  // namespace deepinfer
