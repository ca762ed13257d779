// The number formats of the checkpoint and the state, as scalar functions: bf16, E4M3, E8M0, E2M1 and the power-of-two block scale.
// The only place (with quantize.h) that knows bit layouts. All conversions round to nearest, ties to even.
//
// Source: spec section 2. Denormals: kernels run with FTZ and DAZ set (base/threads.h), so no function here may depend on
// denormal float32 arithmetic; conversions work on bits or on exact integers.
#pragma once

#include <cstdint>

// Functions used inside kernels, which are compiled once per instruction set: always inlined, so that no copy compiled for a newer
// machine can be picked by the linker for an older one.
#define DI_INLINE static inline __attribute__((always_inline, unused))

namespace deepinfer {

DI_INLINE float bits_to_float(uint32_t bits) { return __builtin_bit_cast(float, bits); }
DI_INLINE uint32_t float_to_bits(float value) { return __builtin_bit_cast(uint32_t, value); }

// bfloat16, stored as its bits.
struct bf16 {
  uint16_t bits;
  friend bool operator==(bf16, bf16) = default;
};

DI_INLINE float to_float(bf16 x) { return bits_to_float(static_cast<uint32_t>(x.bits) << 16); }

// Round to nearest even; NaN stays NaN (quiet), infinities stay.
DI_INLINE bf16 to_bf16(float x) {
  const uint32_t u = float_to_bits(x);
  if ((u & 0x7FFFFFFFu) > 0x7F800000u) return {static_cast<uint16_t>((u >> 16) | 0x0040u)};
  return {static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16)};
}
DI_INLINE float round_bf16(float x) { return to_float(to_bf16(x)); }

// E8M0: 2^(byte - 127). 255 is NaN; 0 is 2^-127, a denormal float.
inline constexpr uint8_t kE8M0Nan = 255;
DI_INLINE float e8m0_to_float(uint8_t byte) {
  if (byte == kE8M0Nan) return bits_to_float(0x7FC00000u);
  return bits_to_float(byte == 0 ? 0x00400000u : static_cast<uint32_t>(byte) << 23);
}

// E4M3 (fn variant): bias 7, largest 448, no infinity, 0x7F and 0xFF are NaN.
DI_INLINE float e4m3_to_float(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t magnitude = code & 0x7Fu;
  if (magnitude == 0x7Fu) return bits_to_float(sign | 0x7FC00000u);
  if (magnitude < 8u) {
    const float value = static_cast<float>(magnitude) * 0x1p-9f;
    return bits_to_float(sign | float_to_bits(value));
  }
  return bits_to_float(sign | ((magnitude << 20) + (120u << 23)));
}

// Clamps to +-448, then rounds. NaN becomes NaN.
DI_INLINE uint8_t to_e4m3(float x) {
  const uint32_t u = float_to_bits(x);
  const uint8_t sign = static_cast<uint8_t>((u >> 24) & 0x80u);
  const uint32_t a = u & 0x7FFFFFFFu;
  if (a > 0x7F800000u) return static_cast<uint8_t>(sign | 0x7Fu);
  if (a >= 0x43E00000u) return static_cast<uint8_t>(sign | 0x7Eu);  // >= 448
  if (a < 0x3C800000u) {                                 // < 2^-6: a multiple of 2^-9, rounded by adding 1.5 * 2^14
    const float shifted = bits_to_float(a) + 0x1.8p14f;  // ulp of [2^14, 2^15) is 2^-9
    return static_cast<uint8_t>(sign | (float_to_bits(shifted) & 0xFu));
  }
  const uint32_t rounded = a + 0x7FFFFu + ((a >> 20) & 1u);
  return static_cast<uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
}

// E2M1: codes 0..7 are 0, 0.5, 1, 1.5, 2, 3, 4, 6; bit 3 is the sign.
inline constexpr float kE2M1Values[8] = {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f};
DI_INLINE float e2m1_to_float(uint8_t code) {
  const float value = kE2M1Values[code & 7u];
  return (code & 8u) != 0 ? -value : value;
}

// Clamps to +-6, then rounds to nearest, ties to the even code.
DI_INLINE uint8_t to_e2m1(float x) {
  const uint32_t u = float_to_bits(x);
  const float a = bits_to_float(u & 0x7FFFFFFFu);
  const uint8_t code = static_cast<uint8_t>((a > 0.25f) + (a >= 0.75f) + (a > 1.25f) + (a >= 1.75f) + (a > 2.5f) +
                                            (a >= 3.5f) + (a > 5.0f));
  return static_cast<uint8_t>(code | ((u >> 28) & 8u));
}

// The smallest power of two >= fl32(amax * inverse), as the biased exponent byte (spec 2.1).
inline constexpr float kInverse448 = 0x1.24924ap-9f;
inline constexpr float kInverse6 = 0x1.555556p-3f;
DI_INLINE uint8_t pow2_scale_byte(float amax, float inverse) {
  const uint32_t t = float_to_bits(amax * inverse);
  return static_cast<uint8_t>(((t >> 23) & 0xFFu) + ((t & 0x7FFFFFu) != 0));
}

}  // namespace deepinfer
