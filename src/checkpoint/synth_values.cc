// Values of synthetic tensors: which kernel makes which storage, and the token map.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_kernel.h"

namespace deepinfer {
namespace {

constexpr int64_t kBlock = 32;
constexpr double kSqrt3 = 1.7320508075688772;

uint64_t stream_base(std::string_view name, uint64_t seed) { return fnv1a64(name) ^ (seed * kGoldenGamma); }

std::string scale_name(const std::string& weight) {
  return weight.substr(0, weight.size() - std::string_view(".weight").size()) + ".scale";
}

ValueStream make_stream(const ManifestEntry& entry, uint64_t seed) {
  ValueStream stream;
  stream.base = stream_base(entry.name, seed);
  stream.amp = static_cast<float>(entry.std * kSqrt3);
  stream.mean = static_cast<float>(entry.mean);
  const bool has_scale = entry.storage != Storage::bf16 && entry.storage != Storage::f32;
  if (has_scale) stream.jitter_base = stream_base(scale_name(entry.name), seed);
  return stream;
}

}  // namespace

int64_t synth_units(const ManifestEntry& entry) {
  switch (entry.storage) {
    case Storage::bf16:
    case Storage::f32:
      return entry.elements();
    case Storage::f8_tile:
      return (entry.shape[0] + kBlock - 1) / kBlock;
    case Storage::f8_row:
      return entry.elements() / kBlock;
    case Storage::f4_row:
      return entry.elements() / (kBlock / 2);
    case Storage::scale:
    case Storage::none:
      break;
  }
  return 0;
}

void synth_part(const ManifestEntry& entry, uint64_t seed, int64_t begin, int64_t end, std::byte* out,
                std::byte* scale) {
  const SynthKernels& kernels = synth_kernels().back();
  const ValueStream stream = make_stream(entry, seed);
  auto* bytes = reinterpret_cast<uint8_t*>(out);
  auto* scales = reinterpret_cast<uint8_t*>(scale);
  switch (entry.storage) {
    case Storage::f32:
      return kernels.f32(stream, begin, end - begin, reinterpret_cast<float*>(out));
    case Storage::bf16:
      return kernels.bf16(stream, begin, end - begin, reinterpret_cast<uint16_t*>(out));
    case Storage::f8_row:
      return kernels.f8_rows(stream, {begin, end - begin, bytes, scales});
    case Storage::f4_row:
      return kernels.f4_rows(stream, {begin, end - begin, bytes, scales});
    case Storage::f8_tile: {
      const int64_t first = begin * kBlock;
      return kernels.f8_tiles(stream,
                              {first, std::min(end * kBlock, entry.shape[0]) - first, entry.shape[1], bytes, scales});
    }
    case Storage::scale:
    case Storage::none:
      DI_CHECK_MSG(false, "{} has no values of its own", entry.name);
  }
}

void synth_tensor(const ManifestEntry& entry, uint64_t seed, std::span<std::byte> out, std::span<std::byte> scale) {
  DI_CHECK(static_cast<int64_t>(out.size()) == entry.bytes());
  synth_part(entry, seed, 0, synth_units(entry), out.data(), scale.data());
}

std::vector<int32_t> synth_token_map(const ModelConfig& config, const std::string& config_name) {
  const uint64_t base = stream_base("token_map." + config_name, 0);
  const size_t tokens = static_cast<size_t>(config.vocab_size);
  const size_t classes = static_cast<size_t>(config.engram_compressed_vocab_size);
  // The first `classes` tokens of a random order get a class each, the others a random one.
  std::vector<uint64_t> keys(tokens);
  for (size_t i = 0; i < tokens; ++i) keys[i] = random_word(base, i);
  std::vector<size_t> order(tokens);
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return keys[a] < keys[b]; });
  std::vector<size_t> class_of(tokens);
  for (size_t rank = 0; rank < tokens; ++rank) {
    const size_t token = order[rank];
    class_of[token] = rank < classes ? rank : static_cast<size_t>(random_word(base, tokens + token) % classes);
  }
  std::vector<int32_t> number(classes, -1);
  std::vector<int32_t> map(tokens);
  int32_t next = 0;
  for (size_t token = 0; token < tokens; ++token) {
    int32_t& assigned = number[class_of[token]];
    if (assigned < 0) assigned = next++;
    map[token] = assigned;
  }
  return map;
}

}  // namespace deepinfer
