// The random part of sampling: Gumbel noise that is a function of (seed, choice, position, id) and of nothing else, so
// that a seed gives one transcript whatever the batch, the order of work, and whether drafts are used.
// docs/sampling.md, step 4.
//
// Threading: pure. Errors: none.
#pragma once

#include <bit>
#include <cstdint>

#include "base/random.h"
#include "numerics/math.h"

namespace deepinfer {

// What names a draw. `position` is the place in its sequence of the token to be chosen, counted from 0 with the prompt
// included; `choice` the index of the answer among the n of its request.
struct NoiseKey {
  uint64_t seed = 0;
  int32_t choice = 0;
  int64_t position = 0;
};

// The stream of words of one row; the word of token `id` is random_word(row_stream(key), id).
inline uint64_t row_stream(const NoiseKey& key) {
  return random_word(random_word(key.seed, static_cast<uint64_t>(key.choice)), static_cast<uint64_t>(key.position));
}

// The word as a number strictly between 0 and 1: an odd multiple of 2^-53, exact.
inline double uniform(uint64_t word) { return (static_cast<double>(word >> 12) + 0.5) * 0x1p-52; }

// -log(-log(u)): from -3.61 (u = 2^-53) to 36.74 (u = 1 - 2^-53).
inline double gumbel(uint64_t word) { return -log64(-log64(uniform(word))); }

// At least gumbel(word), at the price of counting bits: -log(u) >= 1 - u, and 1 - u >= 2^-(leading ones of the word +
// 1). The factor is above ln 2 by far more than log64 can err.
inline double gumbel_bound(uint64_t word) {
  const int ones = std::countl_one(word);
  return ((ones < 52 ? ones : 52) + 1) * 0.6931471806;
}

}  // namespace deepinfer
