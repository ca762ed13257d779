// SHA-256 (FIPS 180-4): digests in golden data and in files that name what they belong to. For checks, not for speed or
// secrets. Threading: a Sha256 belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepinfer {

class Sha256 {
 public:
  void update(const void* data, size_t size);

  // The digest of all bytes so far as 64 lower-case hex digits. The object is spent afterwards.
  std::string finish_hex();

 private:
  void block(const uint8_t* bytes);

  std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> pending_{};
  uint64_t size_ = 0;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace deepinfer
