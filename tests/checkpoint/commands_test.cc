#include <CLI/CLI.hpp>

#include "checkpoint/checkpoint.h"
#include "cli/inspect_command.h"
#include "cli/synth_command.h"
#include "scratch.h"

namespace deepinfer {
namespace {

std::string inspect(InspectOptions options) {
  const auto inspection = inspect_model(options);
  EXPECT_TRUE(inspection.ok()) << inspection.status().message();
  return inspection.ok() ? inspection->text : std::string();
}

TEST(Inspect, ReleasedConfigurationWithoutWeights) {
  InspectOptions options;
  options.model_dir = golden("released");
  const std::string text = inspect(options);
  for (const char* part :
       {"890 bytes a token", "routed experts: 4.25 bits a weight", "Tensors: 96085, 510286023000 bytes",
        "configuration only", "vision                266 tensors        970536960 bytes  switched off: never read",
        "24  ratio 1  reindex rows of 20, selection of 24, under the candidates of 20"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  options.json = true;
  const std::string line = inspect(options);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  for (
      const char* part :
      {R"("weights":false,"tensors":96085,"bytes":510286023000,"config":{"architectures":["DeepseekV41ForCausalLM"])",
       R"("expert_bits_per_weight":4.25,)",
       R"("state":{"bytes_per_token":890,"kv_row_bytes":288,"index_row_bytes":68,)",
       R"({"layer":0,"role":"window","ratio":0,"kv_source":null,"index_source":null,)",
       R"({"layer":28,"role":"reindex","ratio":1,"kv_source":20,"index_source":28,"candidate_source":false,"uses_candidates":true,"engram_rows":null,"tap":false})",
       R"({"part":"vision","tensors":266,"bytes":970536960,"used":false})"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " is not in\n" << line;
  }
  // The configuration in it is the whole one.
  const size_t begin = line.find("\"config\":") + 9;
  const auto config = parse_config(line.substr(begin, line.find(",\"layers\":") - begin), "report");
  ASSERT_TRUE(config.ok()) << config.status().message();
  EXPECT_EQ(config_to_json(*config), bytes_of(golden("released/config.json")));
}

TEST(Inspect, MemoryForBatchAndContext) {
  InspectOptions options;
  options.model_dir = golden("released/config.json");
  options.json = true;
  options.max_batch = 8;
  options.max_context = 1001;  // odd: the open groups of the three ratio-2 sources make no row
  const int64_t sequence = 43 * 140 * 528 + 3 * 7 * 2 * 512 * 4 + 60;
  const int64_t state = 8 * (sequence + 1001 * 356 + 3 * 500 * 356);
  const int64_t weights = 510286023000 - 970536960;
  const std::string expected = fmt::format(
      R"("memory":{{"max_batch":8,"max_context":1001,"weight_bytes":{},"state_bytes":{},"total_bytes":{}}}}})", weights,
      state, weights + state);
  EXPECT_NE(inspect(options).find(expected), std::string::npos) << expected << "\n" << inspect(options);
  options.max_context = 1048577;
  EXPECT_NE(inspect_model(options).status().message().find("--max-context: found 1048577, accepted: 1 to"),
            std::string::npos);
  options.max_context = 1;
  options.max_batch = 0;
  EXPECT_NE(inspect_model(options).status().message().find("--max-batch: found 0"), std::string::npos);
}

TEST(Inspect, TensorListIsThatOfTheRelease) {
  DI_NEEDS_SHARED();
  InspectOptions options;
  options.model_dir = golden("released");
  options.tensors = true;
  EXPECT_NE(inspect(options).find("\nlayers.0.ffn.experts.383.w2.scale\tF8_E8M0\t5120x72\t368640\n"),
            std::string::npos);
}

TEST(Inspect, WeightsAndTheirScales) {
  const ScratchDir dir("inspect");
  synth_sample("odd", dir.path(), 1);
  InspectOptions options;
  options.model_dir = dir.path();
  EXPECT_NE(inspect(options).find("with weights"), std::string::npos);
  options.json = true;
  options.check = true;
  EXPECT_NE(inspect(options).find("\"scales_checked\":true"), std::string::npos);
  EXPECT_EQ(run_inspect(options), 0);
  // A NaN among the scales: the report is made, the check failed.
  const Checkpoint checkpoint = Checkpoint::open(dir.path()).value();
  const TensorView& scale = checkpoint.tensor("mtp.1.ffn.experts.0.w1.scale");
  const std::string path = checkpoint.file_of(scale.name);
  const SafetensorsFile file = SafetensorsFile::open(path).value();
  std::string bytes = bytes_of(path);
  const int64_t size = static_cast<int64_t>(bytes.size());
  // Tensors are laid out by type, then by name: the last byte of the file is the last byte of the last one-byte tensor's data.
  const TensorView* last = nullptr;
  for (const auto& [name, view] : file.tensors()) {
    if (last == nullptr || view.data > last->data) last = &view;
  }
  const int64_t offset = size - last->bytes - (last->data - file.find(scale.name)->data);
  bytes[static_cast<size_t>(offset)] = '\xff';
  put_bytes(dir / "changed.safetensors", bytes);
  std::filesystem::rename(dir / "changed.safetensors", path);
  const auto inspection = inspect_model(options);
  ASSERT_TRUE(inspection.ok()) << inspection.status().message();
  EXPECT_NE(inspection->check.message().find("tensor \"mtp.1.ffn.experts.0.w1.scale\": element 0 is a NaN scale"),
            std::string::npos);
  EXPECT_NE(inspection->text.find("\"scales_checked\":false"), std::string::npos);
  EXPECT_EQ(run_inspect(options), 1);
  options.check = false;
  EXPECT_EQ(run_inspect(options), 2);  // refused as a model
}

TEST(Inspect, WhatIsNotThereIsNamed) {
  InspectOptions options;
  options.model_dir = "/no/such/dir";
  EXPECT_NE(inspect_model(options).status().message().find("/no/such/dir/config.json"), std::string::npos);
  EXPECT_EQ(run_inspect(options), 2);
  options.model_dir = DI_SOURCE_DIR "/tests/golden/released";  // a configuration without weights
  options.check = true;
  EXPECT_NE(inspect_model(options).status().message().find("--check"), std::string::npos);
}

TEST(SynthCommand, NamesOfConfigurations) {
  EXPECT_EQ(synth_config_name("/a/golden/nano/checkpoint/config.json"), "nano");
  EXPECT_EQ(synth_config_name("/a/golden/wide/config.json"), "wide");
  EXPECT_EQ(synth_config_name("/a/golden/wide/config_c96.json"), "wide");
  EXPECT_EQ(synth_config_name("/a/b/nano.json"), "nano");
  EXPECT_EQ(synth_config_name("wide_c96.json"), "wide");
  EXPECT_EQ(synth_config_name("/a/deepseek-v4.1-tiny/../odd/./config.json"), "odd");
  EXPECT_EQ(synth_config_name("relative/config.json"), "relative");
}

// The command line but for what all commands share, into a directory that the reader accepts.
int synth_main(std::vector<std::string> arguments, SynthCliOptions* seen = nullptr, uint64_t seed = 1) {
  CLI::App app;
  SynthCliOptions options;
  add_synth_options(app, options);
  std::reverse(arguments.begin(), arguments.end());
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError&) {
    return 2;
  }
  if (seen != nullptr) *seen = options;
  options.json = true;
  options.threads = 2;
  options.seed = seed;
  return run_synth(options);
}

TEST(SynthCommand, MakesACheckpointThatOpens) {
  const ScratchDir dir("synth_command");
  SynthCliOptions seen;
  ASSERT_EQ(
      synth_main({"--layers", "0,1,2,5,7", golden("nano/config.json"), dir / "out", "--experts=5", "--engram-rows=600"},
                 &seen, 7),
      0);
  EXPECT_EQ(seen.layers, (std::vector<int>{0, 1, 2, 5, 7}));
  const auto checkpoint = Checkpoint::open(dir / "out");
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  const ModelConfig& config = checkpoint->config();
  EXPECT_EQ(config.num_hidden_layers, 5);
  EXPECT_EQ(config.n_routed_experts, 5);
  EXPECT_EQ(config.dspark_n_routed_experts, 4);
  EXPECT_EQ(config.engram_vocab_size, 100);
  EXPECT_EQ(config.kv_source_layer_ids, (std::vector<int>{2, 3}));
  EXPECT_EQ(config.index_source_layer_ids, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(config.candidate_source_layer_id, 3);
  EXPECT_EQ(config.dspark_target_layer_ids, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(bytes_of(dir / "out/token_map.safetensors"), bytes_of(golden("nano/token_map.safetensors")));
  // Values follow the new names: the tensor of what was layer 5 is that of the manifest's layer 3.
  const std::vector<ManifestEntry> entries = manifest(config);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].name != "layers.3.attn.wkv.weight") continue;
    std::vector<std::byte> bytes(static_cast<size_t>(entries[i].bytes()));
    std::vector<std::byte> scale(static_cast<size_t>(entries[i + 1].bytes()));
    synth_tensor(entries[i], 7, bytes, scale);
    EXPECT_EQ(std::memcmp(bytes.data(), checkpoint->tensor(entries[i].name).data, bytes.size()), 0);
  }
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--overwrite"}), 0);
}

TEST(SynthCommand, BadUsageIsRefused) {
  const ScratchDir dir("synth_usage");
  EXPECT_EQ(synth_main({}), 2);
  EXPECT_EQ(synth_main({"/no/such/config.json", dir / "out"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--layers", "3,4"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--layers", "a"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--experts", "0"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--shards", "2", "--max-shard-bytes", "5"}), 2);
  EXPECT_EQ(synth_main({golden("nano/config.json"), dir / "out", "--unknown"}), 2);
  EXPECT_FALSE(std::filesystem::exists(dir / "out"));
  EXPECT_EQ(synth_main({golden("nano/config.json"), "/proc/no/such"}), 1);
}

}  // namespace
}  // namespace deepinfer
