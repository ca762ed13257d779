// Primes, offsets and multipliers of the Engram hash (spec 8.2, 8.3), in integers throughout.
#include "checkpoint/engram_constants.h"

#include <algorithm>
#include <array>
#include <bit>

namespace deepinfer {
namespace {

__extension__ using uint128 = unsigned __int128;

uint64_t multiply_mod(uint64_t a, uint64_t b, uint64_t modulus) {
  return static_cast<uint64_t>(uint128{a} * b % modulus);
}

// Miller-Rabin with the bases that decide every 64-bit number.
bool is_prime(uint64_t n) {
  constexpr uint64_t kBases[] = {2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const uint64_t p : kBases) {
    if (n % p == 0) return n == p;
  }
  const int twos = std::countr_zero(n - 1);
  const uint64_t odd = (n - 1) >> twos;
  for (const uint64_t base : kBases) {
    uint64_t x = 1;
    uint64_t power = base;
    for (uint64_t e = odd; e > 0; e >>= 1) {
      if (e & 1) x = multiply_mod(x, power, n);
      power = multiply_mod(power, power, n);
    }
    bool witness = x != 1 && x != n - 1;
    for (int i = 1; i < twos && witness; ++i) {
      x = multiply_mod(x, x, n);
      witness = x != n - 1;
    }
    if (witness) return false;
  }
  return true;
}

// The generator that numpy's default_rng(seed) is: SeedSequence fills the state of a PCG64 (128-bit LCG, XSL-RR
// output).
class NumpyGenerator {
 public:
  explicit NumpyGenerator(uint32_t seed) {
    const std::array<uint64_t, 4> words = seed_words(seed);
    increment_ = (((uint128{words[2]} << 64) | words[3]) << 1) | 1;
    step();
    state_ += (uint128{words[0]} << 64) | words[1];
    step();
  }

  // Uniform in [0, bound), bound > 2^32: the high half of a 64 x 64 product, rejecting the uneven low products.
  uint64_t below(uint64_t bound) {
    const uint64_t uneven = (0 - bound) % bound;
    for (;;) {
      const uint128 product = uint128{next()} * bound;
      if (static_cast<uint64_t>(product) >= uneven) return static_cast<uint64_t>(product >> 64);
    }
  }

 private:
  void step() {
    constexpr uint128 kMultiplier = (uint128{2549297995355413924ull} << 64) | 4865540595714422341ull;
    state_ = state_ * kMultiplier + increment_;
  }
  uint64_t next() {
    step();
    const uint64_t folded = static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  // Hashes the seed into a pool of four words, mixes every word into every other, and draws eight words.
  static std::array<uint64_t, 4> seed_words(uint32_t seed) {
    constexpr size_t kPool = 4;
    uint32_t constant = 0x43b0d7e5u;
    const auto hash = [&constant](uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875u;
      value *= constant;
      return value ^ (value >> 16);
    };
    std::array<uint32_t, kPool> pool{};
    for (size_t i = 0; i < kPool; ++i) pool[i] = hash(i == 0 ? seed : 0);
    for (size_t from = 0; from < kPool; ++from) {
      for (size_t to = 0; to < kPool; ++to) {
        if (from == to) continue;
        const uint32_t mixed = 0xca01f9ddu * pool[to] - 0x4973f715u * hash(pool[from]);
        pool[to] = mixed ^ (mixed >> 16);
      }
    }
    std::array<uint64_t, 4> words{};
    uint32_t out_constant = 0x8b51f9ddu;
    for (size_t i = 0; i < 2 * kPool; ++i) {
      uint32_t value = pool[i % kPool] ^ out_constant;
      out_constant *= 0x58f38dedu;
      value *= out_constant;
      value ^= value >> 16;
      words[i / 2] |= uint64_t{value} << (32 * (i % 2));
    }
    return words;
  }

  uint128 state_ = 0;
  uint128 increment_ = 0;
};

}  // namespace

std::vector<std::vector<uint64_t>> engram_primes(const ModelConfig& config) {
  // "The next prime not yet used, starting again from the vocabulary size for every n-gram size" takes the primes in
  // ascending order without a gap, so one running number is enough.
  const size_t columns = static_cast<size_t>((config.engram_max_ngram_size - 1) * config.engram_n_heads);
  std::vector<std::vector<uint64_t>> primes(config.engram_layer_ids.size());
  uint64_t candidate = static_cast<uint64_t>(config.engram_vocab_size);
  for (std::vector<uint64_t>& layer : primes) {
    for (; layer.size() < columns; ++candidate) {
      if (is_prime(candidate)) layer.push_back(candidate);
    }
  }
  return primes;
}

std::vector<uint64_t> engram_multipliers(int layer, const ModelConfig& config) {
  constexpr uint64_t kLargest = (uint64_t{1} << 63) - 1;
  const uint64_t classes = static_cast<uint64_t>(config.engram_compressed_vocab_size);
  const uint64_t bound = std::max<uint64_t>(1, kLargest / classes / 2);
  NumpyGenerator generator(10007u * static_cast<uint32_t>(layer));
  std::vector<uint64_t> multipliers(static_cast<size_t>(config.engram_max_ngram_size));
  for (uint64_t& multiplier : multipliers) multiplier = 2 * generator.below(bound) + 1;
  return multipliers;
}

Result<std::vector<EngramConstants>> engram_constants(const ModelConfig& config) {
  std::vector<std::vector<uint64_t>> primes = engram_primes(config);
  std::vector<EngramConstants> out(primes.size());
  for (size_t i = 0; i < out.size(); ++i) {
    EngramConstants& constants = out[i];
    constants.multipliers = engram_multipliers(config.engram_layer_ids[i], config);
    constants.primes = std::move(primes[i]);
    for (const uint64_t prime : constants.primes) {
      constants.offsets.push_back(constants.rows);
      constants.rows += prime;
    }
    if (constants.rows != static_cast<uint64_t>(config.engram_num_embeddings[i])) {
      return invalid(
          "text_config.engram_num_embeddings[{}]: found {}, accepted: {}, the sum of the primes of layer {} that "
          "engram_vocab_size {}, engram_max_ngram_size {} and engram_n_heads {} call for",
          i, config.engram_num_embeddings[i], constants.rows, config.engram_layer_ids[i], config.engram_vocab_size,
          config.engram_max_ngram_size, config.engram_n_heads);
    }
  }
  return out;
}

}  // namespace deepinfer
