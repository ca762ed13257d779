#include "checkpoint/synth.h"

#include <cmath>
#include <random>

#include "base/file.h"
#include "base/random.h"
#include "checkpoint/synth_kernel.h"
#include "checkpoint/token_map.h"
#include "numerics/formats.h"
#include "scratch.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

// The checksum of SYNTH.md section 7.
uint64_t sum64(const std::byte* data, int64_t bytes) {
  uint64_t total = 0;
  for (int64_t i = 0; i * 8 < bytes; ++i) {
    uint64_t word = 0;
    std::memcpy(&word, data + i * 8, static_cast<size_t>(std::min<int64_t>(8, bytes - i * 8)));
    total += (word + 1) * (2 * static_cast<uint64_t>(i) + 1);
  }
  return total;
}

// Vectors printed in SYNTH.md section 7.
TEST(Synth, PublishedVectors) {
  EXPECT_EQ(fnv1a64("embed.weight"), 0x9ac37bcac2dc8a00u);
  const uint64_t base = fnv1a64("embed.weight") ^ kGoldenGamma;
  EXPECT_EQ(random_word(base, 0), 0x27190451f00c7003u);
  EXPECT_EQ(random_word(base, 3), 0xecc1ef9cd17acd73u);
  for (const SynthKernels& kernels : synth_kernels()) {
    float values[4];
    ValueStream stream{base, static_cast<float>(0.12 * 1.7320508075688772), 0, 0};
    kernels.f32(stream, 0, 4, values);
    EXPECT_EQ(values[0], -0x1.27a5dap-3f) << kernels.name;
    EXPECT_EQ(values[1], 0x1.199604p-9f) << kernels.name;
    EXPECT_EQ(values[2], -0x1.ee1128p-5f) << kernels.name;
    EXPECT_EQ(values[3], 0x1.69ad64p-3f) << kernels.name;
    stream = {fnv1a64("norm.weight") ^ kGoldenGamma, static_cast<float>(0.1 * 1.7320508075688772), 1.0f, 0};
    kernels.f32(stream, 0, 4, values);
    EXPECT_EQ(values[0], 0x1.e4af1cp-1f) << kernels.name;
    EXPECT_EQ(values[3], 0x1.c0ef5ep-1f) << kernels.name;
    const float to8[] = {0, -0.0f, 0x1p-10f, 0x1.8p-9f, 1.0625f, 1.1875f, 447.9f, 448, 1e9f, -17};
    const uint8_t codes8[] = {0x00, 0x80, 0x00, 0x02, 0x38, 0x3a, 0x7e, 0x7e, 0x7e, 0xd8};
    uint8_t found[10];
    kernels.to_f8(to8, 10, found);
    EXPECT_EQ(std::memcmp(found, codes8, 10), 0) << kernels.name;
    const float to4[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5, -5, 7, -0.0f};
    const uint8_t codes4[] = {0, 2, 2, 4, 4, 6, 6, 14, 7, 8};
    kernels.to_f4(to4, 10, found);
    EXPECT_EQ(std::memcmp(found, codes4, 10), 0) << kernels.name;
  }
}

// Conversions of every kernel against numerics/formats.h: all values near a boundary of either format, and random ones.
TEST(Synth, ConversionsAreThoseOfTheFormats) {
  std::vector<float> values;
  const auto add_near = [&values](float x) {
    for (const float sign : {1.0f, -1.0f}) {
      values.insert(values.end(), {sign * x, sign * std::nextafterf(x, 0.0f), sign * std::nextafterf(x, 1e30f)});
    }
  };
  for (int code = 0; code + 1 < 0x7F; ++code) {
    const float low = e4m3_to_float(static_cast<uint8_t>(code));
    add_near(low);
    add_near((low + e4m3_to_float(static_cast<uint8_t>(code + 1))) / 2);
  }
  for (const float x :
       {0.25f, 0.5f, 0.75f, 1.0f, 1.25f, 1.5f, 1.75f, 2.0f, 2.5f, 3.0f, 3.5f, 4.0f, 5.0f, 6.0f, 7.0f, 464.0f, 1e20f}) {
    add_near(x);
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i)
    values.push_back(bits_to_float((static_cast<uint32_t>(random()) & 0x87FFFFFFu) + 0x38000000u));
  for (const SynthKernels& kernels : synth_kernels()) {
    std::vector<uint8_t> codes(values.size());
    kernels.to_f8(values.data(), static_cast<int64_t>(values.size()), codes.data());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(codes[i], to_e4m3(values[i])) << kernels.name << " " << values[i];
    kernels.to_f4(values.data(), static_cast<int64_t>(values.size()), codes.data());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(codes[i], to_e2m1(values[i])) << kernels.name << " " << values[i];
  }
}

// The rule written out, one element at a time, against every kernel, at awkward sizes and offsets.
TEST(Synth, KernelsFollowTheRuleAtEverySize) {
  const ValueStream stream{123456789, 0.37f, 0.0f, 987654321};
  const auto value = [&](int64_t i) {
    const float u =
        static_cast<float>(static_cast<int32_t>(random_word(stream.base, static_cast<uint64_t>(i)) >> 40) - (1 << 23)) *
        0x1p-23f;
    return stream.amp * u + stream.mean;
  };
  const auto jittered = [&](int64_t i, int64_t block) {
    return std::ldexp(value(i),
                      static_cast<int>(random_word(stream.jitter_base, static_cast<uint64_t>(block)) % 3) - 1);
  };
  for (const SynthKernels& kernels : synth_kernels()) {
    for (const int64_t count : {1, 7, 8, 9, 31}) {  // blocks
      std::vector<uint8_t> out8(static_cast<size_t>(count * 32)), out4(static_cast<size_t>(count * 16)),
          scales(static_cast<size_t>(count));
      std::vector<uint8_t> scales4 = scales;
      const int64_t first = 5;
      kernels.f8_rows(stream, {first, count, out8.data(), scales.data()});
      kernels.f4_rows(stream, {first, count, out4.data(), scales4.data()});
      for (int64_t b = 0; b < count; ++b) {
        float top = 0;
        for (int64_t i = 0; i < 32; ++i) top = std::max(top, std::fabs(jittered((first + b) * 32 + i, first + b)));
        const uint8_t byte8 = pow2_scale_byte(std::max(top, 1e-4f), kInverse448);
        const uint8_t byte4 = pow2_scale_byte(std::max(top, 6 * 0x1p-126f), kInverse6);
        ASSERT_EQ(scales[static_cast<size_t>(b)], byte8);
        ASSERT_EQ(scales4[static_cast<size_t>(b)], byte4);
        for (int64_t i = 0; i < 32; ++i) {
          const float x = jittered((first + b) * 32 + i, first + b);
          ASSERT_EQ(out8[static_cast<size_t>(b * 32 + i)], to_e4m3(x / e8m0_to_float(byte8))) << kernels.name;
          const uint8_t pair = out4[static_cast<size_t>(b * 16 + i / 2)];
          ASSERT_EQ(i % 2 == 0 ? pair & 15 : pair >> 4, to_e2m1(x / e8m0_to_float(byte4))) << kernels.name;
        }
      }
    }
    for (const int64_t rows : {1, 31, 32, 33, 70}) {
      for (const int64_t columns : {32, 96, 256, 288}) {
        const int64_t first_row = 64;
        std::vector<uint8_t> out(static_cast<size_t>(rows * columns)),
            scales(static_cast<size_t>((rows + 31) / 32 * (columns / 32)));
        kernels.f8_tiles(stream, {first_row, rows, columns, out.data(), scales.data()});
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t c = 0; c < columns; ++c) {
            const int64_t tile = (first_row + r) / 32 * (columns / 32) + c / 32;
            float top = 0;
            if (r % 32 == 0 && c % 32 == 0) {
              for (int64_t y = r; y < std::min(rows, r + 32); ++y) {
                for (int64_t x = c; x < c + 32; ++x)
                  top = std::max(top, std::fabs(jittered((first_row + y) * columns + x, tile)));
              }
              ASSERT_EQ(scales[static_cast<size_t>(r / 32 * (columns / 32) + c / 32)],
                        pow2_scale_byte(std::max(top, 1e-4f), kInverse448));
            }
            const uint8_t byte = scales[static_cast<size_t>(r / 32 * (columns / 32) + c / 32)];
            const float x = jittered((first_row + r) * columns + c, tile);
            ASSERT_EQ(out[static_cast<size_t>(r * columns + c)], to_e4m3(x / e8m0_to_float(byte))) << kernels.name;
          }
        }
      }
    }
    for (const int64_t count : {1, 255, 256, 257, 600}) {
      std::vector<uint16_t> out(static_cast<size_t>(count));
      kernels.bf16(stream, 11, count, out.data());
      for (int64_t i = 0; i < count; ++i)
        ASSERT_EQ(out[static_cast<size_t>(i)], to_bf16(value(11 + i)).bits) << kernels.name;
    }
  }
}

// Every tensor made in memory; the digest of their checksums was computed from the golden data.
std::string digest(const ModelConfig& config, uint64_t seed) {
  const std::vector<ManifestEntry> entries = manifest(config);
  std::map<std::string, std::string> lines;
  int64_t total = 0;
  const auto add = [&](const ManifestEntry& entry, const std::vector<std::byte>& bytes) {
    total += entry.bytes();
    lines[entry.name] = fmt::format("{} {} {} {:016x}\n", entry.name, dtype_name(entry.dtype),
                                    fmt::join(entry.shape, "x"), sum64(bytes.data(), entry.bytes()));
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].storage == Storage::scale) continue;
    const bool has_scale = i + 1 < entries.size() && entries[i + 1].storage == Storage::scale;
    std::vector<std::byte> bytes(static_cast<size_t>(entries[i].bytes()));
    std::vector<std::byte> scale(has_scale ? static_cast<size_t>(entries[i + 1].bytes()) : 0);
    synth_tensor(entries[i], seed, bytes, scale);
    add(entries[i], bytes);
    if (has_scale) add(entries[i + 1], scale);
  }
  std::string text;
  for (const auto& [name, line] : lines) text += line;
  return fmt::format("{} {} {:016x}\n", lines.size(), total, fnv1a64(text));
}

TEST(Synth, TensorsHaveTheGoldenDigests) {
  for (const char* name : {"nano", "odd", "wide"}) {
    EXPECT_EQ(digest(sample(name), 1), read_file(golden(std::string(name) + "/weights_digest.txt")).value()) << name;
  }
  EXPECT_NE(digest(sample("nano"), 2), digest(sample("nano"), 1));
}

TEST(Synth, TokenMapsAreTheGoldenOnes) {
  for (const char* name : {"nano", "odd"}) {
    const auto expected = read_token_map(golden(name), sample(name));
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    EXPECT_EQ(synth_token_map(sample(name), name), *expected);
  }
  EXPECT_NE(synth_token_map(sample("nano"), "nano"), synth_token_map(sample("nano"), "other"));
}

TEST(Synth, FilesAreByteIdenticalToTheGoldenCheckpoints) {
  DI_NEEDS_SHARED();
  for (const char* name : {"nano", "odd"}) {
    const ScratchDir dir("synth_" + std::string(name));
    synth_sample(name, dir.path(), name == std::string("nano") ? 1 : 2, 3);
    int files = 0;
    for (const auto& entry : fs::directory_iterator(shared(std::string("golden/") + name + "/checkpoint"))) {
      const std::string file = entry.path().filename().string();
      if (file == "config.json") continue;  // the same fields in another order
      EXPECT_TRUE(bytes_of(entry.path().string()) == bytes_of(dir / file)) << name << "/" << file;
      ++files;
    }
    EXPECT_EQ(files, name == std::string("nano") ? 3 : 4);
    EXPECT_EQ(config_to_json(read_config(dir / "config.json").value()), config_to_json(sample(name)));
  }
}

TEST(Synth, WideTokenMapIsTheGoldenOne) {
  DI_NEEDS_SHARED();
  EXPECT_EQ(synth_token_map(sample("wide"), "wide"), read_token_map(shared("golden/wide"), sample("wide")).value());
}

TEST(Synth, ShardsAndThreadsDoNotChangeABit) {
  const ScratchDir one("synth_one"), many("synth_many");
  synth_sample("odd", one.path(), 1, 1);
  SynthOptions options;
  options.config_name = "odd";
  options.out_dir = many.path();
  options.max_shard_bytes = 100'000;
  options.threads = 4;
  int64_t last = 0;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_GE(done, last);
    EXPECT_LE(done, total);
    last = done;
  };
  const auto summary = synthesize(sample("odd"), options);
  ASSERT_TRUE(summary.ok()) << summary.status().message();
  EXPECT_EQ(last, summary->bytes);
  EXPECT_GT(summary->files, 20);
  const Checkpoint a = Checkpoint::open(one.path()).value();
  const auto opened = Checkpoint::open(many.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  for (const auto& [name, tensor] : a.tensors()) {
    const TensorView& other = opened->tensor(name);
    ASSERT_EQ(tensor.bytes, other.bytes);
    EXPECT_EQ(std::memcmp(tensor.data, other.data, static_cast<size_t>(tensor.bytes)), 0) << name;
  }
}

TEST(Synth, ShardCountsAreChecked) {
  const ScratchDir dir("synth_shards");
  SynthOptions options;
  options.out_dir = dir.path();
  const auto message = [&] {
    const auto summary = synthesize(sample("odd"), options);
    EXPECT_FALSE(summary.ok());
    return summary.status().message();
  };
  options.shards = 801;
  EXPECT_NE(message().find("shards: found 801, accepted: 1 to 800"), std::string::npos);
  options.shards = 600;
  EXPECT_NE(message().find("would hold no tensor"), std::string::npos);
  options.shards = 0;
  options.max_shard_bytes = 0;
  EXPECT_NE(message().find("max-shard-bytes: found 0"), std::string::npos);
  options.max_shard_bytes = 1;
  EXPECT_EQ(synthesize(sample("odd"), options).value().files, 514);  // one tensor a file
  const auto opened = Checkpoint::open(dir.path());
  EXPECT_TRUE(opened.ok()) << opened.status().message();
}

TEST(Synth, DirectoriesAreNotMixed) {
  const ScratchDir dir("synth_twice");
  SynthOptions options;
  options.out_dir = dir / "out";
  options.config_name = "odd";
  options.shards = 3;
  ASSERT_TRUE(synthesize(sample("odd"), options).ok());
  put_bytes(dir / "out/model.safetensors.synth-tmp", "left by a run that was ended");
  const auto again = synthesize(sample("odd"), options);
  ASSERT_FALSE(again.ok());
  EXPECT_NE(again.status().message().find("the directory holds"), std::string::npos);
  options.overwrite = true;
  options.shards = 2;
  ASSERT_TRUE(synthesize(sample("odd"), options).ok());
  int files = 0;
  for (const auto& entry : fs::directory_iterator(dir / "out")) {
    EXPECT_EQ(entry.path().string().find("synth-tmp"), std::string::npos);
    ++files;
  }
  EXPECT_EQ(files, 5);  // 2 shards, index, token map, config
  EXPECT_TRUE(Checkpoint::open(dir / "out").ok());
  put_bytes(dir / "out/notes.txt", "mine");
  EXPECT_NE(synthesize(sample("odd"), options).status().message().find("holds notes.txt, which synth does not write"),
            std::string::npos);
}

TEST(Synth, FailedWritesLeaveNothingBehind) {
  SynthOptions options;
  options.out_dir = "/proc/no/such";
  EXPECT_EQ(synthesize(sample("odd"), options).status().code(), Code::io_error);
  const ScratchDir dir("synth_full");
  put_bytes(dir / "file", "");
  options.out_dir = dir / "file";
  EXPECT_EQ(synthesize(sample("odd"), options).status().code(), Code::io_error);
}

TEST(Synth, VisionIsLeftOut) {
  const ModelConfig released = sample("released");
  EXPECT_FALSE(synth_config(released, {}).value().has_vision);
}

// The cut that interfaces.md gives as its example has the structure of the golden `wide`.
TEST(SynthConfig, LayersAreMappedWithEverythingThatNamesThem) {
  const ModelConfig released = sample("released");
  SynthChanges changes;
  changes.layers = {0, 1, 2, 3, 20, 21, 24, 25};
  changes.experts = 16;
  changes.engram_rows = 48000;
  const auto cut = synth_config(released, changes);
  ASSERT_TRUE(cut.ok()) << cut.status().message();
  const ModelConfig wide = sample("wide");
  EXPECT_EQ(cut->num_hidden_layers, 8);
  EXPECT_EQ(cut->compress_ratios, wide.compress_ratios);
  EXPECT_EQ(cut->kv_source_layer_ids, wide.kv_source_layer_ids);
  EXPECT_EQ(cut->index_source_layer_ids, wide.index_source_layer_ids);
  EXPECT_EQ(cut->candidate_source_layer_id, wide.candidate_source_layer_id);
  EXPECT_EQ(cut->dspark_target_layer_ids, wide.dspark_target_layer_ids);
  EXPECT_EQ(cut->engram_layer_ids, wide.engram_layer_ids);
  EXPECT_EQ(cut->engram_vocab_size, 2000);
  EXPECT_EQ(cut->engram_num_embeddings, wide.engram_num_embeddings);
  EXPECT_EQ(cut->n_routed_experts, 16);
  EXPECT_EQ(cut->dspark_n_routed_experts, 16);
  EXPECT_EQ(cut->hidden_size, released.hidden_size);
  EXPECT_TRUE(parse_config(config_to_json(*cut), "c").ok());
}

TEST(SynthConfig, TapsFollowTheirLayersIfAllAreKept) {
  SynthChanges changes;
  changes.layers = {0, 1, 2, 3, 5, 7, 8, 9};
  const ModelConfig cut = synth_config(sample("nano"), changes).value();
  EXPECT_EQ(cut.dspark_target_layer_ids, (std::vector<int>{5, 6, 7}));
  changes.layers = {2, 4};
  const auto odd = synth_config(sample("odd"), changes);
  EXPECT_NE(odd.status().message().find("layer 2 reads the rows of layer 1, which is missing"), std::string::npos);
}

TEST(SynthConfig, LayersWithoutDecoderHaveNoCandidates) {
  SynthChanges changes;
  changes.layers = {0, 1, 2, 3, 4};
  const ModelConfig cut = synth_config(sample("nano"), changes).value();
  EXPECT_EQ(cut.candidate_source_layer_id, -1);
  EXPECT_EQ(cut.candidate_topk_blocks, 0);
  EXPECT_EQ(cut.dspark_target_layer_ids, (std::vector<int>{2, 3, 4}));
}

TEST(SynthConfig, ChangesThatMakeNoSenseAreRefused) {
  const ModelConfig released = sample("released");
  const auto message = [&](SynthChanges changes) {
    const auto cut = synth_config(released, changes);
    EXPECT_FALSE(cut.ok());
    return cut.status().message();
  };
  EXPECT_NE(message({{0, 3}, 0, 0}).find("layer 3 reads the rows of layer 2, which is missing"), std::string::npos);
  EXPECT_NE(message({{0, 20, 25}, 0, 0}).find("layer 25 uses the selection of layer 24, which is missing"),
            std::string::npos);
  EXPECT_NE(message({{0, 1, 40}, 0, 0}).find("layers: found 40, accepted: 0 to 39"), std::string::npos);
  EXPECT_NE(message({{-1}, 0, 0}).find("layers: found -1"), std::string::npos);
  EXPECT_NE(message({{1, 0}, 0, 0}).find("layers: found 0 after 1"), std::string::npos);
  EXPECT_NE(message({{0, 1}, 0, 0}).find("dspark_target_layer_ids"), std::string::npos);
  EXPECT_NE(message({{}, 5, 0}).find("experts: found 5, accepted: 6"), std::string::npos);
  EXPECT_NE(message({{}, 0, -1}).find("engram-rows: found -1"), std::string::npos);
  ModelConfig wrong = released;
  wrong.engram_num_embeddings[0] = 5;
  EXPECT_NE(synth_config(wrong, {}).status().message().find("engram_num_embeddings[0]"), std::string::npos);
}

TEST(SynthConfig, WithoutChangesOnlyVisionGoes) {
  ModelConfig released = sample("released");
  const std::string made = config_to_json(synth_config(released, {}).value());
  released.has_vision = false;
  EXPECT_EQ(made, config_to_json(released));
}

}  // namespace
}  // namespace deepinfer
