#include "checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "checkpoint/token_map.h"
#include "scratch.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kFirst = "model-00001-of-00002.safetensors";
constexpr const char* kSecond = "model-00002-of-00002.safetensors";

// A checkpoint of `odd` in two shards, damaged by the test and then opened.
class CheckpointTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    original_ = std::make_unique<ScratchDir>("checkpoint_original");
    synth_sample("odd", original_->path(), 2);
  }
  static void TearDownTestSuite() { original_.reset(); }

  void SetUp() override {
    fs::copy(original_->path(), dir_.path(), fs::copy_options::overwrite_existing | fs::copy_options::recursive);
  }

  // The message of the refusal, which must have all these parts.
  void expect_refused(std::vector<std::string> says, Code code = Code::ok) {
    const auto checkpoint = Checkpoint::open(dir_.path());
    ASSERT_FALSE(checkpoint.ok());
    for (const std::string& part : says) {
      EXPECT_NE(checkpoint.status().message().find(part), std::string::npos)
          << "\"" << checkpoint.status().message() << "\" lacks " << part;
    }
    if (code != Code::ok) {
      EXPECT_EQ(checkpoint.status().code(), code) << checkpoint.status().message();
    }
  }

  void change_index(const std::function<void(Json&)>& change) { change_json(kIndex, change); }
  void change_json(const std::string& name, const std::function<void(Json&)>& change) {
    Json json = Json::parse(bytes_of(dir_ / name));
    change(json);
    put_bytes(dir_ / name, json.dump());
  }
  // Rewrites a shard's header; the data stays.
  void change_header(const std::string& name, const std::function<void(Json&)>& change) {
    std::string file = bytes_of(dir_ / name);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    Json header = Json::parse(file.substr(8, length));
    change(header);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const std::string data = file.substr(8 + length);
    length = text.size();
    put_bytes(dir_ / name, std::string(reinterpret_cast<const char*>(&length), 8) + text + data);
  }
  // Sets a byte of a tensor.
  void poke(const std::string& tensor, int64_t offset, char value) {
    const std::string name = Json::parse(bytes_of(dir_ / kIndex))["weight_map"][tensor];
    std::string file = bytes_of(dir_ / name);
    uint64_t length = 0;
    std::memcpy(&length, file.data(), 8);
    const uint64_t begin = Json::parse(file.substr(8, length))[tensor]["data_offsets"][0];
    file[8 + length + begin + static_cast<uint64_t>(offset)] = value;
    put_bytes(dir_ / name, file);
  }

  ScratchDir dir_{"checkpoint"};
  static std::unique_ptr<ScratchDir> original_;
};
std::unique_ptr<ScratchDir> CheckpointTest::original_;

TEST_F(CheckpointTest, OpensAndMapsEveryTensor) {
  const auto opened = Checkpoint::open(dir_.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const Checkpoint& checkpoint = *opened;
  EXPECT_EQ(checkpoint.tensors().size(), 514u);
  EXPECT_TRUE(checkpoint.switched_off().empty());
  EXPECT_TRUE(checkpoint.scales_checked());
  EXPECT_EQ(checkpoint.config().hidden_size, 160);
  const TensorView& embed = checkpoint.tensor("embed.weight");
  EXPECT_EQ(embed.shape, (std::vector<int64_t>{331, 160}));
  EXPECT_EQ(embed.dtype, DType::bf16);
  EXPECT_EQ(checkpoint.file_of("embed.weight"), dir_ / kFirst);
  EXPECT_EQ(checkpoint.file_of("norm.weight"), dir_ / kSecond);
}

TEST_F(CheckpointTest, ShippedCheckpointsOpen) {
  DI_NEEDS_SHARED();
  for (const char* dir : {"golden/nano/checkpoint", "golden/odd/checkpoint", "models/deepseek-v4.1-tiny"}) {
    const auto checkpoint = Checkpoint::open(shared(dir));
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
    EXPECT_TRUE(checkpoint->scales_checked());
  }
}

TEST_F(CheckpointTest, OneFileNeedsNoIndex) {
  ScratchDir single("checkpoint_single");
  synth_sample("odd", single.path(), 1);
  fs::remove(single / kIndex);
  const auto checkpoint = Checkpoint::open(single.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  fs::rename(single / "model.safetensors", single / "weights.safetensors");
  EXPECT_NE(Checkpoint::open(single.path()).status().message().find("not exactly one model.safetensors"),
            std::string::npos);
}

TEST_F(CheckpointTest, MissingFilesAreNamed) {
  fs::remove(dir_ / kSecond);
  expect_refused({dir_ / kSecond, "does not exist", "puts tensor"}, Code::not_found);
  fs::remove(dir_ / kIndex);
  expect_refused({dir_.path(), "no model.safetensors.index.json", "found 1 *.safetensors"}, Code::not_found);
  fs::remove(dir_ / "config.json");
  expect_refused({dir_ / "config.json"}, Code::not_found);
}

TEST_F(CheckpointTest, MissingDirectoryIsNamed) {
  const auto checkpoint = Checkpoint::open("/no/such/dir");
  ASSERT_FALSE(checkpoint.ok());
  EXPECT_NE(checkpoint.status().message().find("/no/such/dir"), std::string::npos);
}

TEST_F(CheckpointTest, TruncatedShard) {
  const std::string file = bytes_of(dir_ / kSecond);
  put_bytes(dir_ / kSecond, file.substr(0, file.size() - 1));
  expect_refused({dir_ / kSecond, "tensor \"", "end beyond the file"}, Code::data_loss);
  put_bytes(dir_ / kSecond, file.substr(0, 5));
  expect_refused({dir_ / kSecond, "5 bytes"}, Code::data_loss);
  put_bytes(dir_ / kSecond, "");
  expect_refused({dir_ / kSecond, "0 bytes"}, Code::data_loss);
}

TEST_F(CheckpointTest, OverlapNamesBothTensors) {
  change_header(kFirst, [](Json& header) {
    header["layers.0.attn.kv_norm.weight"]["data_offsets"] = header["layers.0.attn_norm.weight"]["data_offsets"];
    header["layers.0.attn.kv_norm.weight"]["shape"] = header["layers.0.attn_norm.weight"]["shape"];
  });
  expect_refused({dir_ / kFirst, "\"layers.0.attn.kv_norm.weight\"", "\"layers.0.attn_norm.weight\"", "overlap"},
                 Code::data_loss);
}

TEST_F(CheckpointTest, IndexPathsStayInTheDirectory) {
  for (const char* path : {"../x/model.safetensors", "/etc/passwd", "/tmp/model.safetensors", "sub/model.safetensors",
                           "..", "", ".", "a\\b.safetensors", "config.json", "token_map.safetensors"}) {
    change_index([&](Json& index) { index["weight_map"]["norm.weight"] = path; });
    expect_refused({kIndex, "tensor \"norm.weight\"", "without a path"}, Code::invalid_argument);
  }
  change_index([](Json& index) { index["weight_map"]["norm.weight"] = std::string("a\0.safetensors", 14); });
  expect_refused({kIndex, "norm.weight", R"("a\x00.safetensors")"});
  change_index([](Json& index) { index["weight_map"]["norm.weight"] = 3; });
  expect_refused({kIndex, "norm.weight", "found 3", "a file name"});
}

TEST_F(CheckpointTest, IndexIsMalformed) {
  put_bytes(dir_ / kIndex, "{");
  expect_refused({kIndex, "not valid JSON"});
  put_bytes(dir_ / kIndex, "[]");
  expect_refused({kIndex, "an object"});
  put_bytes(dir_ / kIndex, "{}");
  expect_refused({kIndex, "weight_map: this field is missing"});
  put_bytes(dir_ / kIndex, R"({"weight_map": []})");
  expect_refused({kIndex, "weight_map: found []"});
  put_bytes(dir_ / kIndex, R"({"weight_map": {}, "other": 1})");
  expect_refused({kIndex, "unknown field \"other\""});
  put_bytes(dir_ / kIndex, R"({"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}})");
  expect_refused({kIndex, "\"a\": this key appears twice"});
  put_bytes(dir_ / kIndex, R"({"weight_map": {}})");
  expect_refused({kFirst, "no tensor of model.safetensors.index.json is in this file"});
}

TEST_F(CheckpointTest, IndexAndFilesDisagree) {
  change_index([](Json& index) { index["weight_map"]["norm.weight"] = "model-00003-of-00003.safetensors"; });
  expect_refused({dir_ / "model-00003-of-00003.safetensors", "does not exist", "norm.weight"}, Code::not_found);
  change_index([](Json& index) { index["weight_map"]["norm.weight"] = kFirst; });
  expect_refused({dir_ / kSecond, "tensor \"norm.weight\" is in this file", kFirst});
  change_index([](Json& index) { index["weight_map"].erase("norm.weight"); });
  expect_refused({dir_ / kSecond, "tensor \"norm.weight\" is in the file but not in"});
  change_index([](Json& index) {
    index["weight_map"]["norm.weight"] = kSecond;
    index["weight_map"]["norm.bias"] = kSecond;
  });
  expect_refused({dir_ / kSecond, "tensor \"norm.bias\" is missing"}, Code::data_loss);
}

TEST_F(CheckpointTest, SameTensorInTwoFiles) {
  change_header(kSecond, [](Json& header) {
    header["embed.weight"] = header["norm.weight"];
    header.erase("norm.weight");
  });
  expect_refused({dir_ / kSecond, "tensor \"embed.weight\" is also in", dir_ / kFirst});
}

TEST_F(CheckpointTest, TotalSizeMustBeRight) {
  change_index([](Json& index) { index["metadata"]["total_size"] = 3880412; });
  expect_refused({kIndex, "metadata.total_size is 3880412", "3880413"}, Code::data_loss);
  change_index([](Json& index) { index["metadata"]["total_size"] = 3880413.0; });
  expect_refused({kIndex, "metadata.total_size: found 3880413.0"});
  change_index([](Json& index) { index["metadata"]["total_size"] = "3880413"; });
  expect_refused({kIndex, "metadata.total_size: found \"3880413\""});
  change_index([](Json& index) { index.erase("metadata"); });
  EXPECT_TRUE(Checkpoint::open(dir_.path()).ok());
}

TEST_F(CheckpointTest, UnusedWeightFileIsRefused) {
  fs::copy(dir_ / kFirst, dir_ / "extra.safetensors");
  expect_refused({dir_ / "extra.safetensors", "nothing uses"});
}

TEST_F(CheckpointTest, ExtraAndMissingTensors) {
  const auto rename = [this](const std::string& from, const std::string& to) {
    change_header(kSecond, [&](Json& header) {
      header[to] = header[from];
      header.erase(from);
    });
    change_index([&](Json& index) {
      index["weight_map"][to] = kSecond;
      index["weight_map"].erase(from);
    });
  };
  rename("norm.weight", "norm.bias");
  expect_refused({dir_.path(), "tensor \"norm.weight\" is missing", "BF16 [160]"}, Code::not_found);
  rename("norm.bias", "norm.weight");
  ASSERT_TRUE(Checkpoint::open(dir_.path()).ok());
  // A tensor more, of the vision tower: not asked for without vision_config.
  change_header(kSecond, [](Json& header) {
    int64_t end = 0;
    for (const auto& [name, entry] : header.items()) {
      if (name != "__metadata__") end = std::max(end, entry["data_offsets"][1].get<int64_t>());
    }
    header["image_start"] = {{"dtype", "BF16"}, {"shape", {0}}, {"data_offsets", {end, end}}};
  });
  change_index([](Json& index) { index["weight_map"]["image_start"] = kSecond; });
  expect_refused({dir_ / kSecond, "tensor \"image_start\"", "no such tensor", "no vision_config"});
}

TEST_F(CheckpointTest, WrongDTypeAndShape) {
  change_header(kSecond, [](Json& header) {
    header["norm.weight"] = {
        {"dtype", "U8"}, {"shape", {320}}, {"data_offsets", header["norm.weight"]["data_offsets"]}};
  });
  expect_refused({dir_ / kSecond, "tensor \"norm.weight\"", "found U8 [320]", "accepted: BF16 [160]"});
  change_header(kSecond, [](Json& header) {
    header["norm.weight"] = {
        {"dtype", "BF16"}, {"shape", {160, 1}}, {"data_offsets", header["norm.weight"]["data_offsets"]}};
  });
  expect_refused({dir_ / kSecond, "tensor \"norm.weight\"", "found BF16 [160, 1]", "accepted: BF16 [160]"});
}

TEST_F(CheckpointTest, ConfigThatDoesNotFit) {
  change_json("config.json", [](Json& config) { config["text_config"]["engram_num_embeddings"] = {991}; });
  expect_refused({dir_ / "config.json", "text_config.engram_num_embeddings[0]: found 991, accepted: 990"});
  change_json("config.json", [](Json& config) {
    config["text_config"]["engram_num_embeddings"] = {990};
    config["text_config"]["n_routed_experts"] = 8;
  });
  expect_refused({dir_.path(), "layers.0.ffn.gate.weight", "found BF16 [7, 160]", "accepted: BF16 [8, 160]"});
}

TEST_F(CheckpointTest, NanScalesAreFound) {
  poke("layers.4.ffn.experts.6.w2.scale", 17, '\xff');
  expect_refused({"layers.4.ffn.experts.6.w2.scale", "element 17", "NaN"}, Code::data_loss);
  // Beyond the limit they are not scanned at open, but found when asked for, all or one.
  CheckpointOptions options;
  options.scan_scale_bytes = 1000;
  const auto checkpoint = Checkpoint::open(dir_.path(), options);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_FALSE(checkpoint->scales_checked());
  EXPECT_NE(checkpoint->check_scales().message().find("layers.4.ffn.experts.6.w2.scale"), std::string::npos);
  EXPECT_TRUE(checkpoint->check_scale(checkpoint->tensor("layers.4.ffn.experts.6.w1.scale")).ok());
  const Status status = checkpoint->check_scale(checkpoint->tensor("layers.4.ffn.experts.6.w2.scale"));
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_NE(status.message().find("model-0000"), std::string::npos);
}

// A config with a vision tower expects its 266 tensors, names them, and hands none out.
TEST_F(CheckpointTest, VisionIsExpectedAndSwitchedOff) {
  change_json("config.json", [](Json& config) {
    config["vision_config"] = Json::parse(bytes_of(golden("released/config.json")))["vision_config"];
  });
  expect_refused({"tensor \"vision.patch_embed.proj.weight\" is missing"});
  // They lie in a file of their own; a sparse one, since nobody reads them.
  ModelConfig config = read_config(dir_ / "config.json").value();
  Json header;
  int64_t offset = 0;
  Json index = Json::parse(bytes_of(dir_ / kIndex));
  for (const ManifestEntry& entry : manifest(config)) {
    if (entry.part != Part::vision) continue;
    header[entry.name] = {
        {"dtype", "BF16"}, {"shape", entry.shape}, {"data_offsets", {offset, offset + entry.bytes()}}};
    index["weight_map"][entry.name] = "vision.safetensors";
    offset += entry.bytes();
  }
  index["metadata"]["total_size"] = index["metadata"]["total_size"].get<int64_t>() + offset;
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  put_bytes(dir_ / "vision.safetensors", std::string(reinterpret_cast<const char*>(&length), 8) + text);
  fs::resize_file(dir_ / "vision.safetensors", 8 + length + static_cast<uint64_t>(offset));
  put_bytes(dir_ / kIndex, index.dump());
  const auto checkpoint = Checkpoint::open(dir_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status().message();
  EXPECT_EQ(checkpoint->switched_off().size(), 266u);
  EXPECT_EQ(checkpoint->tensors().size(), 514u);
  EXPECT_FALSE(checkpoint->tensors().contains("image_start"));
  EXPECT_EQ(checkpoint->file_of("image_start"), dir_ / "vision.safetensors");
}

TEST_F(CheckpointTest, TokenMap) {
  const ModelConfig config = read_config(dir_ / "config.json").value();
  const auto map = read_token_map(dir_.path(), config);
  ASSERT_TRUE(map.ok()) << map.status().message();
  EXPECT_EQ(bytes_of(dir_ / "token_map.safetensors"), bytes_of(golden("odd/token_map.safetensors")));
  const auto refused = [&](const ModelConfig& other) {
    const auto result = read_token_map(dir_.path(), other);
    EXPECT_FALSE(result.ok());
    return result.status().message();
  };
  ModelConfig other = config;
  other.vocab_size = 330;
  EXPECT_NE(refused(other).find("found I32 [331], accepted: I32 [330]"), std::string::npos);
  other = config;
  other.engram_compressed_vocab_size = 156;
  EXPECT_NE(refused(other).find("found 156, accepted: 0 to engram_compressed_vocab_size - 1 = 155"), std::string::npos);
  other.engram_compressed_vocab_size = 158;
  EXPECT_NE(refused(other).find("no token has class 157"), std::string::npos);
  std::string file = bytes_of(dir_ / "token_map.safetensors");
  file[file.size() - 1] = '\x80';
  put_bytes(dir_ / "token_map.safetensors", file);
  EXPECT_NE(refused(config).find("token_map[330]: found -"), std::string::npos);
  fs::copy(golden("nano/token_map.safetensors"), dir_ / "token_map.safetensors", fs::copy_options::overwrite_existing);
  EXPECT_NE(refused(config).find("found I32 [512]"), std::string::npos);
  change_header("token_map.safetensors", [](Json& header) {
    header["map"] = header["token_map"];
    header.erase("token_map");
  });
  EXPECT_NE(refused(config).find("accepted: one, token_map"), std::string::npos);
  fs::remove(dir_ / "token_map.safetensors");
  EXPECT_EQ(read_token_map(dir_.path(), config).status().code(), Code::not_found);
}

}  // namespace
}  // namespace deepinfer
