// The inner loops of synthetic weights: random words, float32 values, block scales and codes, on vectors of any width.
//
// One text, compiled for several instruction sets of the machine and chosen when the program starts; all give the same
// bytes (the hash is integer, every float32 operation is rounded as written, scales are powers of two). Tested against
// each other and, conversion by conversion, against numerics/formats.h. Functions are pure; any thread. Source:
// golden/SYNTH.md sections 1 to 4.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer {

// The values of one tensor: element i is fl32(fl32(amp * u(word i)) + mean), words drawn from `base`.
struct ValueStream {
  uint64_t base = 0;
  float amp = 0, mean = 0;
  uint64_t jitter_base = 0;  // stream of the scale tensor's name, for quantised tensors
};

// A range of blocks of 32 along rows. `out`: 32 bytes a block (f8) or 16 (f4); `scales`: 1 byte a block.
struct BlockRange {
  int64_t first = 0, count = 0;
  uint8_t* out = nullptr;
  uint8_t* scales = nullptr;
};

// A range of rows of a tiled tensor; first_row % 32 == 0. `out`: rows x columns bytes; `scales`: ceil(rows / 32) x
// columns / 32.
struct TileRange {
  int64_t first_row = 0, rows = 0, columns = 0;
  uint8_t* out = nullptr;
  uint8_t* scales = nullptr;
};

struct SynthKernels {
  const char* name;
  void (*f32)(const ValueStream&, int64_t first, int64_t count, float* out);
  void (*bf16)(const ValueStream&, int64_t first, int64_t count, uint16_t* out);
  void (*f8_rows)(const ValueStream&, const BlockRange&);
  void (*f4_rows)(const ValueStream&, const BlockRange&);
  void (*f8_tiles)(const ValueStream&, const TileRange&);
  // The conversions alone, for tests: E4M3 and E2M1 codes of count values.
  void (*to_f8)(const float* in, int64_t count, uint8_t* out);
  void (*to_f4)(const float* in, int64_t count, uint8_t* out);
};

// Those that this machine can run, the portable one first, the fastest last.
const std::vector<SynthKernels>& synth_kernels();

}  // namespace deepinfer
