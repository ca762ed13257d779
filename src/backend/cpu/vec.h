// Sixteen-lane vectors for the CPU kernels. A vector is one, two or four registers of the instruction set that the file is compiled for; a lane
// is a lane whatever the width, so one text gives the same bits everywhere.
//
// Everything here is always inlined into a translation unit of one instruction set (DI_ISA).
#pragma once

#include <cstring>
#include <type_traits>

#include "numerics/formats.h"

namespace deepinfer {

#if defined(__AVX512F__)
inline constexpr int kNativeLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kNativeLanes = 8;
#else
inline constexpr int kNativeLanes = 4;
#endif

// Loops over registers must be gone before the compiler decides what lives in them.
#define DI_UNROLL _Pragma("GCC unroll 16")

namespace DI_ISA {

inline constexpr int kParts = 16 / kNativeLanes;

// Vectors that an inner loop may keep as sums: half of the registers.
inline constexpr int kSums = kNativeLanes == 16 ? 16 : 8 / kParts;

template <typename T>
struct Vec16 {
  typedef T Part __attribute__((vector_size(kNativeLanes * sizeof(T))));
  Part part[kParts];
};
using f32x16 = Vec16<float>;
using u32x16 = Vec16<uint32_t>;
using i32x16 = Vec16<int32_t>;  // also masks: a lane is 0 or -1

// Part by part: a copy of the whole would go through the stack in pieces that stores cannot forward.
template <typename V>
DI_INLINE V load(const void* p) {
  V v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) {
    std::memcpy(&v.part[i], static_cast<const char*>(p) + i * sizeof(v.part[i]), sizeof(v.part[i]));
  }
  return v;
}
template <typename V>
DI_INLINE void store(void* p, const V& v) {
  DI_UNROLL for (int i = 0; i < kParts; ++i) {
    std::memcpy(static_cast<char*>(p) + i * sizeof(v.part[i]), &v.part[i], sizeof(v.part[i]));
  }
}
template <typename T>
DI_INLINE Vec16<T> broadcast(T x) {
  Vec16<T> v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = typename Vec16<T>::Part{} + x;
  return v;
}
DI_INLINE f32x16 splat(float x) { return broadcast(x); }
DI_INLINE f32x16 zeros() { return broadcast(0.0f); }

#define DI_BINARY(op)                                                              \
  template <typename T>                                                            \
  DI_INLINE Vec16<T> operator op(const Vec16<T>& a, const Vec16<T>& b) {           \
    Vec16<T> v;                                                                    \
    DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = a.part[i] op b.part[i]; \
    return v;                                                                      \
  }                                                                                \
  template <typename T>                                                            \
  DI_INLINE Vec16<T> operator op(const Vec16<T>& a, std::type_identity_t<T> b) {   \
    return a op broadcast<T>(b);                                                   \
  }                                                                                \
  template <typename T>                                                            \
  DI_INLINE Vec16<T> operator op(std::type_identity_t<T> a, const Vec16<T>& b) {   \
    return broadcast<T>(a) op b;                                                   \
  }
DI_BINARY(+)
DI_BINARY(-)
DI_BINARY(*)
DI_BINARY(/)
DI_BINARY(&)
DI_BINARY(|)
#undef DI_BINARY
DI_INLINE f32x16 operator-(const f32x16& a) {
  f32x16 v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = -a.part[i];
  return v;
}

#define DI_COMPARE(op)                                                                             \
  template <typename T>                                                                            \
  DI_INLINE i32x16 operator op(const Vec16<T>& a, const Vec16<T>& b) {                             \
    i32x16 v;                                                                                      \
    DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = (i32x16::Part)(a.part[i] op b.part[i]); \
    return v;                                                                                      \
  }
DI_COMPARE(<)
DI_COMPARE(>)
DI_COMPARE(==)
DI_COMPARE(!=)
#undef DI_COMPARE

template <typename T>
DI_INLINE Vec16<T> operator<<(const Vec16<T>& a, int bits) {
  Vec16<T> v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = a.part[i] << bits;
  return v;
}
template <typename T>
DI_INLINE Vec16<T> operator>>(const Vec16<T>& a, int bits) {
  Vec16<T> v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = a.part[i] >> bits;
  return v;
}
template <typename T>
DI_INLINE Vec16<T> select(const i32x16& mask, const Vec16<T>& a, const Vec16<T>& b) {
  Vec16<T> v;
  DI_UNROLL for (int i = 0; i < kParts; ++i) v.part[i] = mask.part[i] ? a.part[i] : b.part[i];
  return v;
}
// The same bits as another type.
template <typename To, typename T>
DI_INLINE To reinterpret(const Vec16<T>& v) {
  To out;
  DI_UNROLL for (int i = 0; i < kParts; ++i) out.part[i] = (typename To::Part)v.part[i];
  return out;
}
DI_INLINE f32x16 as_float(const u32x16& v) { return reinterpret<f32x16>(v); }
DI_INLINE u32x16 as_bits(const f32x16& v) { return reinterpret<u32x16>(v); }
DI_INLINE f32x16 from_int(const i32x16& v) {
  f32x16 out;
  DI_UNROLL for (int i = 0; i < kParts; ++i) out.part[i] = __builtin_convertvector(v.part[i], f32x16::Part);
  return out;
}
DI_INLINE i32x16 to_int(const f32x16& v) {  // towards zero
  i32x16 out;
  DI_UNROLL for (int i = 0; i < kParts; ++i) out.part[i] = __builtin_convertvector(v.part[i], i32x16::Part);
  return out;
}

// Sixteen unsigned 8- or 16-bit values, widened.
DI_INLINE u32x16 widen_u8(const void* p) {
  typedef uint8_t Bytes __attribute__((vector_size(kNativeLanes)));
  u32x16 out;
  DI_UNROLL for (int i = 0; i < kParts; ++i) {
    Bytes bytes;
    std::memcpy(&bytes, static_cast<const uint8_t*>(p) + i * kNativeLanes, sizeof(bytes));
    out.part[i] = __builtin_convertvector(bytes, u32x16::Part);
  }
  return out;
}
DI_INLINE u32x16 widen_u16(const void* p) {
  typedef uint16_t Halves __attribute__((vector_size(2 * kNativeLanes)));
  u32x16 out;
  DI_UNROLL for (int i = 0; i < kParts; ++i) {
    Halves halves;
    std::memcpy(&halves, static_cast<const uint16_t*>(p) + i * kNativeLanes, sizeof(halves));
    out.part[i] = __builtin_convertvector(halves, u32x16::Part);
  }
  return out;
}
// The low 16 bits of each lane.
DI_INLINE void narrow_u16(void* p, const u32x16& v) {
  typedef uint16_t Halves __attribute__((vector_size(2 * kNativeLanes)));
  DI_UNROLL for (int i = 0; i < kParts; ++i) {
    const Halves halves = __builtin_convertvector(v.part[i], Halves);
    std::memcpy(static_cast<uint16_t*>(p) + i * kNativeLanes, &halves, sizeof(halves));
  }
}

// The sum by halves that every contract names: l + (l + 8), l + (l + 4), l + (l + 2), l + (l + 1).
DI_INLINE float sum_by_halves(const f32x16& v) {
  typedef float f32x4 __attribute__((vector_size(16)));
  f32x4 s;
#if defined(__AVX512F__)
  const auto a = __builtin_shufflevector(v.part[0], v.part[0], 0, 1, 2, 3, 4, 5, 6, 7) +
                 __builtin_shufflevector(v.part[0], v.part[0], 8, 9, 10, 11, 12, 13, 14, 15);
  s = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#elif defined(__AVX2__)
  const auto a = v.part[0] + v.part[1];
  s = __builtin_shufflevector(a, a, 0, 1, 2, 3) + __builtin_shufflevector(a, a, 4, 5, 6, 7);
#else
  s = (v.part[0] + v.part[2]) + (v.part[1] + v.part[3]);
#endif
  return (s[0] + s[2]) + (s[1] + s[3]);
}

// 32 consecutive bf16 as two vectors: the odd and the even elements (lane l: element 2l + 1, element 2l).
DI_INLINE void split_bf16(const bf16* p, f32x16& odd, f32x16& even) {
  const u32x16 v = load<u32x16>(p);
  odd = as_float(v & 0xFFFF0000u);
  even = as_float(v << 16);
}
// 16 consecutive bf16 as floats.
DI_INLINE f32x16 load_bf16(const bf16* p) { return as_float(widen_u16(p) << 16); }

// The bits of the nearest bf16, ties to even, in the low half of each lane (a NaN stays a NaN).
DI_INLINE u32x16 bf16_bits(const f32x16& x) {
  const u32x16 u = as_bits(x);
  const u32x16 rounded = (u + 0x7FFFu + ((u >> 16) & 1u)) >> 16;
  return select(x == x, rounded, (u >> 16) | 0x40u);
}
DI_INLINE void store_bf16(bf16* p, const f32x16& x) { narrow_u16(p, bf16_bits(x)); }

// E4M3 codes (one in each 32-bit lane, 0..255) to floats.
DI_INLINE f32x16 decode_e4m3(const u32x16& code) {
  const u32x16 magnitude = code & 0x7Fu;
  const i32x16 number = reinterpret<i32x16>(magnitude);
  const u32x16 normal = (magnitude << 20) + (120u << 23);
  const u32x16 subnormal = as_bits(from_int(number) * 0x1p-9f);
  u32x16 bits = select(number < broadcast(8), subnormal, normal);
  bits = select(number == broadcast(0x7F), broadcast(0x7FC00000u), bits);
  return as_float(bits | ((code & 0x80u) << 24));
}

// E2M1 codes (one in each lane, 0..15) to floats.
DI_INLINE f32x16 decode_e2m1(const u32x16& code) {
#if defined(__AVX512F__)
  const f32x16::Part table = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};
  return {__builtin_shuffle(table, __builtin_bit_cast(i32x16::Part, code.part[0]))};  // one permutation instruction
#else
  // Twice the value is an integer below 16; small ones come from it, the others from their bits.
  const u32x16 m = code & 7u;
  const i32x16 number = reinterpret<i32x16>(m);
  const u32x16 normal = (m << 22) + (126u << 23);
  const u32x16 small = as_bits(from_int(number) * 0.5f);
  return as_float(select(number < broadcast(2), small, normal) | ((code & 8u) << 28));
#endif
}

// numerics/math.h exp32, lane by lane, with the same operations.
DI_INLINE f32x16 exp32x16(const f32x16& x) {
  const i32x16 in_range = x > splat(-87.33654f);
  const i32x16 high = x > splat(88.72283f);
  const f32x16 z = select(in_range, select(high, zeros(), x), zeros());
  const f32x16 n = (z * 0x1.715476p0f + 0x1.8p23f) - 0x1.8p23f;
  const f32x16 r = (z - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
  f32x16 p = splat(0x1.6a23dp-10f);
  p = p * r + 0x1.123a2p-7f;
  p = p * r + 0x1.5558f2p-5f;
  p = p * r + 0x1.555492p-3f;
  p = p * r + 0x1.fffffcp-2f;
  p = (r * r) * p + r;
  p = 1.0f + p;
  const i32x16 k = to_int(n);
  const i32x16 half = (k - (k >> 31)) >> 1;  // k / 2, towards zero
  const f32x16 a = reinterpret<f32x16>((half + 127) << 23);
  const f32x16 b = reinterpret<f32x16>((k - half + 127) << 23);
  f32x16 y = (p * a) * b;
  y = select(high, splat(__builtin_huge_valf()), y);
  y = select(in_range, y, zeros());
  return select(x == x, y, x);
}

}  // namespace DI_ISA
}  // namespace deepinfer
