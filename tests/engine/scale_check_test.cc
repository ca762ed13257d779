// A NaN scale never reaches a result: found at load when scales are few, else when first used.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "checkpoint/synth.h"
#include "checkpoint/token_map.h"
#include "model/model.h"

namespace deepinfer {
namespace {

class ScaleCheck : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = testing::TempDir() + "/di_scale_check_" + std::to_string(::getpid());
    const ModelConfig config = read_config(DI_SOURCE_DIR "/tests/golden/nano/config.json").value();
    SynthOptions options;
    options.config_name = "nano";
    options.out_dir = dir_;
    options.overwrite = true;
    ASSERT_TRUE(synthesize(config, options).ok());
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  // Overwrites scale bytes of a tensor with NaN.
  void poison(const std::string& name, int64_t index, int64_t count = 1) {
    const std::string path = dir_ + "/model.safetensors";
    const SafetensorsFile file = SafetensorsFile::open(path).value();
    const TensorView& tensor = *file.find(name);
    const MappedFile mapped = MappedFile::open(path).value();
    // The same bytes through another mapping: the distance from the file's first byte is the tensor's place.
    int64_t place = -1;
    for (const auto& [other, view] : file.tensors()) {
      const int64_t from_end = tensor.data - view.data;
      if (place < from_end) place = from_end;
    }
    uint64_t header = 0;
    std::memcpy(&header, mapped.bytes().data(), sizeof(header));
    std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekp(static_cast<std::streamoff>(8 + header) + place + index);
    for (int64_t i = 0; i < count; ++i) stream.put(static_cast<char>(0xFF));
  }

  // Runs a prompt with scales that were not scanned at load.
  Status run_unscanned() {
    CheckpointOptions options;
    options.scan_scale_bytes = 0;
    Result<Checkpoint> opened = Checkpoint::open(dir_, options);
    if (!opened.ok()) return opened.status();
    EXPECT_FALSE(opened->scales_checked());
    auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened).value());
    ModelLimits limits;
    limits.threads = 1;
    limits.drafts = true;
    auto model = Model::load(checkpoint, read_token_map(dir_, checkpoint->config()).value(), limits);
    if (!model.ok()) return model.status();
    PagePool pool = PagePool::create((*model)->layout()->page_bytes(), 100).value();
    SequenceState state((*model)->layout(), &pool);
    std::vector<int32_t> tokens(200);
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>((i * 37) % 500);
    const deepinfer::Run run{&state, tokens, LogitRows::last, 0};
    const Status status = (*model)->forward({{&run, 1}, nullptr}).status();
    if (!status.ok()) {
      EXPECT_EQ(state.length(), 0);  // a half-made step leaves an empty state
    }
    return status;
  }

  std::string dir_;
};

TEST_F(ScaleCheck, CleanScalesRun) { EXPECT_TRUE(run_unscanned().ok()); }

TEST_F(ScaleCheck, FoundAtLoad) {
  poison("layers.3.ffn.experts.2.w2.scale", 5);
  const Status status = Checkpoint::open(dir_).status();
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_NE(status.message().find("layers.3.ffn.experts.2.w2.scale"), std::string::npos) << status.message();
}

TEST_F(ScaleCheck, DenseScalesAreFoundWhenTheModelIsLoaded) {
  poison("layers.2.attn.wo_b.scale", 1);
  const Status status = run_unscanned();
  EXPECT_NE(status.message().find("layers.2.attn.wo_b.scale"), std::string::npos) << status.message();
}

TEST_F(ScaleCheck, ExpertScalesAreFoundWhenFirstUsed) {
  for (int e = 0; e < 8; ++e) poison("layers.4.ffn.experts." + std::to_string(e) + ".w1.scale", 3);
  const Status status = run_unscanned();
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_NE(status.message().find("layers.4.ffn.experts."), std::string::npos) << status.message();
}

TEST_F(ScaleCheck, EngramScalesAreFoundWhenGathered) {
  poison("layers.1.engram.embed.scale", 0, 1362);
  const Status status = run_unscanned();
  EXPECT_EQ(status.code(), Code::data_loss);
  EXPECT_NE(status.message().find("layers.1.engram.embed.scale"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace deepinfer
