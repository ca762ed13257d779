// Counter-based random words: pure functions of (key, counter), so that every draw has a name and no order.
// Source: golden/SYNTH.md section 1 (splitmix64 finaliser over a Weyl sequence, FNV-1a for names).
#pragma once

#include <cstdint>
#include <string_view>

namespace deepinfer {

inline constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ull;

// Bijective mixing of 64 bits (the finaliser of splitmix64).
constexpr uint64_t mix64(uint64_t t) {
  t = (t ^ (t >> 30)) * 0xBF58476D1CE4E5B9ull;
  t = (t ^ (t >> 27)) * 0x94D049BB133111EBull;
  return t ^ (t >> 31);
}

// The i-th word of the stream `base`.
constexpr uint64_t random_word(uint64_t base, uint64_t i) { return mix64(base + (i + 1) * kGoldenGamma); }

constexpr uint64_t fnv1a64(std::string_view text) {
  uint64_t h = 0xCBF29CE484222325ull;
  for (const char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
  return h;
}

}  // namespace deepinfer
