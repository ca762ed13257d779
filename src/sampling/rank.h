// The order in which filters see tokens, as integers that compare fast: higher logit first, lower id first among equal
// logits (-0 equals +0). Pure functions.
#pragma once

#include <bit>
#include <cstdint>

namespace deepinfer {

// Larger = earlier. The logit is not NaN.
inline uint64_t rank_key(float logit, uint32_t id) {
  const uint32_t bits = std::bit_cast<uint32_t>(logit + 0.0f);  // -0 becomes +0
  const uint32_t ordered = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
  return static_cast<uint64_t>(ordered) << 32 | static_cast<uint32_t>(~id);
}
inline int32_t rank_id(uint64_t key) { return static_cast<int32_t>(~static_cast<uint32_t>(key)); }

}  // namespace deepinfer
