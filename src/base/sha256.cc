#include "base/sha256.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace deepinfer {
namespace {

constexpr bool is_prime(uint32_t n) {
  for (uint32_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) return false;
  }
  return true;
}

// The round constants are the first 32 bits of the fractions of the cube roots of the first 64 primes: floor(cbrt(p <<
// 96)) mod 2^32.
constexpr std::array<uint32_t, 64> make_constants() {
  std::array<uint32_t, 64> out{};
  size_t n = 0;
  for (uint32_t p = 2; n < out.size(); ++p) {
    if (!is_prime(p)) continue;
    uint64_t root = 0;  // the largest with root^3 <= p * 2^96; at most 35 bits
    for (int bit = 34; bit >= 0; --bit) {
      const unsigned __int128 r = root | uint64_t{1} << bit;
      if (r * r * r <= static_cast<unsigned __int128>(p) << 96) root = static_cast<uint64_t>(r);
    }
    out[n++] = static_cast<uint32_t>(root);
  }
  return out;
}
constexpr std::array<uint32_t, 64> kConstants = make_constants();

}  // namespace

void Sha256::block(const uint8_t* bytes) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; ++i) {
    w[i] = uint32_t{bytes[4 * i]} << 24 | uint32_t{bytes[4 * i + 1]} << 16 | uint32_t{bytes[4 * i + 2]} << 8 |
           bytes[4 * i + 3];
  }
  for (int i = 16; i < 64; ++i) {
    const uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  for (int i = 0; i < 64; ++i) {
    const uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kConstants[i] + w[i];
    const uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::array<uint32_t, 8> add = {a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; ++i) state_[i] += add[i];
}

void Sha256::update(const void* data, size_t size) {
  const auto* p = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const size_t filled = size_ % 64;
    const size_t take = std::min(size, 64 - filled);
    std::memcpy(pending_.data() + filled, p, take);
    size_ += take;
    p += take;
    size -= take;
    if (filled + take == 64) block(pending_.data());
  }
}

std::string Sha256::finish_hex() {
  const uint64_t bits = size_ * 8;
  std::array<uint8_t, 72> tail{0x80};
  const size_t zeros = (55 - size_ % 64 + 64) % 64;
  for (int i = 0; i < 8; ++i) tail[1 + zeros + i] = static_cast<uint8_t>(bits >> (56 - 8 * i));
  update(tail.data(), 1 + zeros + 8);
  std::string hex;
  for (const uint32_t word : state_) {
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes.data(), bytes.size());
  return hash.finish_hex();
}

}  // namespace deepinfer
