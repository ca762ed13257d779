#include "checkpoint/synth_kernel.h"

#include "base/random.h"

// Everything below is inlined into one outer function per instruction set; nothing from another header takes part in
// the vector code, so that no copy of a shared inline function is ever compiled for more than the machine can do.
#define DI_INLINE static inline __attribute__((always_inline))

namespace deepinfer {
namespace {

constexpr int kRun = 256;  // values made at a time; 8 blocks
constexpr int kBlock = 32;
constexpr float kFloor8 = 1e-4f;  // smallest block maximum of E4M3 blocks
constexpr float kFloor4 = 6 * 0x1p-126f;
constexpr float kInv448 = 0x1.24924ap-9f;
constexpr float kInv6 = 0x1.555556p-3f;

struct Steps {
  uint64_t at[kRun];
};
constexpr Steps make_steps() {
  Steps steps{};
  for (int i = 0; i < kRun; ++i) steps.at[i] = static_cast<uint64_t>(i + 1) * kGoldenGamma;
  return steps;
}
alignas(64) constexpr Steps kSteps = make_steps();

DI_INLINE uint32_t bits(float x) { return __builtin_bit_cast(uint32_t, x); }
DI_INLINE float real(uint32_t x) { return __builtin_bit_cast(float, x); }

// count <= kRun values from element `first`.
DI_INLINE void values(const ValueStream& stream, uint64_t first, int count, float* out) {
  const uint64_t start = stream.base + first * kGoldenGamma;
  const float amp = stream.amp;
  const float mean = stream.mean;
  for (int i = 0; i < count; ++i) {
    uint64_t t = start + kSteps.at[i];
    t = (t ^ (t >> 30)) * 0xBF58476D1CE4E5B9ull;
    t = (t ^ (t >> 27)) * 0x94D049BB133111EBull;
    // The last step of the hash, t ^ (t >> 31), leaves the upper 31 bits as they are, and only the upper 24 are used.
    const int32_t k = static_cast<int32_t>(t >> 40) - (1 << 23);
    const float u = static_cast<float>(k) * 0x1p-23f;
    out[i] = amp * u + mean;  // two roundings: the project is compiled without contraction
  }
}

// 2^(z mod 3 - 1) of block b, as an addend to an exponent field: -1, 0 or 1.
DI_INLINE int jitter(const ValueStream& stream, int64_t block) {
  return static_cast<int>(random_word(stream.jitter_base, static_cast<uint64_t>(block)) % 3) - 1;
}

DI_INLINE uint32_t largest(const float* x, int count, uint32_t seen) {
  for (int i = 0; i < count; ++i) {
    const uint32_t magnitude = bits(x[i]) & 0x7FFFFFFFu;
    seen = magnitude > seen ? magnitude : seen;
  }
  return seen;
}

// Scale byte of a block and the power of two that takes unjittered values to the scaled ones.
DI_INLINE uint8_t scale_of(uint32_t largest_bits, int jitter_exponent, float floor, float inverse, float* factor) {
  const float jittered = real(largest_bits) * real(static_cast<uint32_t>(127 + jitter_exponent) << 23);
  const uint32_t t = bits((jittered > floor ? jittered : floor) * inverse);
  const uint32_t byte = (t >> 23) + ((t & 0x7FFFFFu) != 0 ? 1 : 0);
  *factor = real((254u - byte + static_cast<uint32_t>(jitter_exponent)) << 23);
  return static_cast<uint8_t>(byte);
}

// To E4M3, finite input: clamp to +-448, nearest even. Below 2^-6 the codes are multiples of 2^-9, rounded by
// adding 1.5 * 2^14.
DI_INLINE void encode8(const float* x, int count, float factor, uint32_t* out) {
  for (int i = 0; i < count; ++i) {
    const uint32_t u = bits(x[i] * factor);
    const uint32_t magnitude = u & 0x7FFFFFFFu;
    const uint32_t a = magnitude < 0x43E00000u ? magnitude : 0x43E00000u;
    const uint32_t normal = ((a + 0x7FFFFu + ((a >> 20) & 1u)) >> 20) - (120u << 3);
    const uint32_t small = bits(real(a) + 0x1.8p14f) & 0xFu;
    out[i] = (a < 0x3C800000u ? small : normal) | ((u >> 24) & 0x80u);
  }
}

// To E2M1 codes 0..15, one a byte: clamp to +-6, nearest even. Below 1 the codes are multiples of 1/2, rounded by
// adding 1.5 * 2^22.
DI_INLINE void encode4(const float* x, int count, float factor, uint32_t* out) {
  for (int i = 0; i < count; ++i) {
    const uint32_t u = bits(x[i] * factor);
    const uint32_t magnitude = u & 0x7FFFFFFFu;
    const uint32_t a = magnitude < 0x40C00000u ? magnitude : 0x40C00000u;
    const uint32_t normal = ((a + 0x1FFFFFu + ((a >> 22) & 1u)) >> 22) - (126u << 1);
    const uint32_t small = bits(real(a) + 0x1.8p22f) & 0x3u;
    out[i] = (a < 0x3F800000u ? small : normal) | ((u >> 28) & 8u);
  }
}

// Codes to bytes. Encoding writes 32-bit lanes and this narrows a whole run, because compilers then use full vectors
// for both.
DI_INLINE void narrow(const uint32_t* codes, int count, uint8_t* out) {
  for (int i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(codes[i]);
}

// Two 4-bit codes a byte, the even element in the low nibble.
DI_INLINE void pack4(const uint32_t* codes, int count, uint8_t* out) {
  for (int i = 0; i < count / 2; ++i) out[i] = static_cast<uint8_t>(codes[2 * i] | (codes[2 * i + 1] << 4));
}

DI_INLINE void f32_body(const ValueStream& stream, int64_t first, int64_t count, float* out) {
  for (int64_t done = 0; done < count; done += kRun) {
    const int n = count - done < kRun ? static_cast<int>(count - done) : kRun;
    values(stream, static_cast<uint64_t>(first + done), n, out + done);
  }
}

DI_INLINE void bf16_body(const ValueStream& stream, int64_t first, int64_t count, uint16_t* out) {
  alignas(64) float run[kRun];
  for (int64_t done = 0; done < count; done += kRun) {
    const int n = count - done < kRun ? static_cast<int>(count - done) : kRun;
    values(stream, static_cast<uint64_t>(first + done), n, run);
    for (int i = 0; i < n; ++i) {
      const uint32_t u = bits(run[i]);
      out[done + i] = static_cast<uint16_t>((u + 0x7FFFu + ((u >> 16) & 1u)) >> 16);
    }
  }
}

DI_INLINE void rows_body(const ValueStream& stream, const BlockRange& range, bool packed) {
  constexpr int kBlocks = kRun / kBlock;
  alignas(64) float run[kRun];
  alignas(64) uint32_t codes[kRun];
  for (int64_t done = 0; done < range.count; done += kBlocks) {
    const int64_t left = range.count - done;
    const int blocks = left < kBlocks ? static_cast<int>(left) : kBlocks;
    const int64_t first = range.first + done;
    values(stream, static_cast<uint64_t>(first) * kBlock, kRun, run);  // the last run may make more than is used
    for (int b = 0; b < blocks; ++b) {
      const float* x = run + b * kBlock;
      float factor = 0;
      const uint32_t top = largest(x, kBlock, 0);
      range.scales[done + b] =
          scale_of(top, jitter(stream, first + b), packed ? kFloor4 : kFloor8, packed ? kInv6 : kInv448, &factor);
      if (packed) {
        encode4(x, kBlock, factor, codes + b * kBlock);
      } else {
        encode8(x, kBlock, factor, codes + b * kBlock);
      }
    }
    if (packed) {
      pack4(codes, blocks * kBlock, range.out + done * (kBlock / 2));
    } else {
      narrow(codes, blocks * kBlock, range.out + done * kBlock);
    }
  }
}

DI_INLINE void tiles_body(const ValueStream& stream, const TileRange& range) {
  constexpr int kTiles = kRun / kBlock;
  alignas(64) float strip[kBlock][kRun];
  alignas(64) uint32_t codes[kRun];
  const int64_t tile_columns = range.columns / kBlock;
  for (int64_t band = 0; band < range.rows; band += kBlock) {
    const int rows = range.rows - band < kBlock ? static_cast<int>(range.rows - band) : kBlock;
    const int64_t tile_row = (range.first_row + band) / kBlock;
    for (int64_t column = 0; column < range.columns; column += kRun) {
      const int64_t left = (range.columns - column) / kBlock;
      const int tiles = left < kTiles ? static_cast<int>(left) : kTiles;
      for (int r = 0; r < rows; ++r) {
        values(stream, static_cast<uint64_t>((range.first_row + band + r) * range.columns + column), kRun, strip[r]);
      }
      float factors[kTiles];
      for (int t = 0; t < tiles; ++t) {
        uint32_t top = 0;
        for (int r = 0; r < rows; ++r) top = largest(strip[r] + t * kBlock, kBlock, top);
        const int64_t tile = column / kBlock + t;
        range.scales[band / kBlock * tile_columns + tile] =
            scale_of(top, jitter(stream, tile_row * tile_columns + tile), kFloor8, kInv448, &factors[t]);
      }
      for (int r = 0; r < rows; ++r) {
        for (int t = 0; t < tiles; ++t) encode8(strip[r] + t * kBlock, kBlock, factors[t], codes + t * kBlock);
        narrow(codes, tiles * kBlock, range.out + (band + r) * range.columns + column);
      }
    }
  }
}

// The conversion alone, a run at a time.
DI_INLINE void convert_body(const float* in, int64_t count, uint8_t* out, bool packed) {
  alignas(64) uint32_t codes[kRun];
  for (int64_t done = 0; done < count; done += kRun) {
    const int n = count - done < kRun ? static_cast<int>(count - done) : kRun;
    if (packed) {
      encode4(in + done, n, 1.0f, codes);
    } else {
      encode8(in + done, n, 1.0f, codes);
    }
    narrow(codes, n, out + done);
  }
}

#define DI_SYNTH_VARIANT(variant, attributes)                                                                   \
  struct variant {                                                                                              \
    attributes static void f32(const ValueStream& s, int64_t first, int64_t count, float* out) {                \
      f32_body(s, first, count, out);                                                                           \
    }                                                                                                           \
    attributes static void bf16(const ValueStream& s, int64_t first, int64_t count, uint16_t* out) {            \
      bf16_body(s, first, count, out);                                                                          \
    }                                                                                                           \
    attributes static void f8_rows(const ValueStream& s, const BlockRange& r) { rows_body(s, r, false); }       \
    attributes static void f4_rows(const ValueStream& s, const BlockRange& r) { rows_body(s, r, true); }        \
    attributes static void f8_tiles(const ValueStream& s, const TileRange& r) { tiles_body(s, r); }             \
    attributes static void to_f8(const float* in, int64_t n, uint8_t* out) { convert_body(in, n, out, false); } \
    attributes static void to_f4(const float* in, int64_t n, uint8_t* out) { convert_body(in, n, out, true); }  \
    static SynthKernels table(const char* name) {                                                               \
      return {name, f32, bf16, f8_rows, f4_rows, f8_tiles, to_f8, to_f4};                                       \
    }                                                                                                           \
  }

DI_SYNTH_VARIANT(Portable, );
#if defined(__x86_64__)
#if defined(__clang__)
#define DI_FULL_WIDTH ""
#else
#define DI_FULL_WIDTH ",prefer-vector-width=512"  // GCC would use half of each register
#endif
DI_SYNTH_VARIANT(Avx2, __attribute__((target("avx2"))));
DI_SYNTH_VARIANT(Avx512, __attribute__((target("avx2,avx512f,avx512bw,avx512dq,avx512vl" DI_FULL_WIDTH))));
#endif

std::vector<SynthKernels> available() {
  std::vector<SynthKernels> out = {Portable::table("portable")};
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) out.push_back(Avx2::table("avx2"));
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl")) {
    out.push_back(Avx512::table("avx512"));
  }
#endif
  return out;
}

}  // namespace

const std::vector<SynthKernels>& synth_kernels() {
  static const std::vector<SynthKernels> kernels = available();
  return kernels;
}

}  // namespace deepinfer
