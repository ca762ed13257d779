// Golden kind "model" on this tree's cases and on the full sets, and what it does with damaged ones.
#include "verify/verify_model.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "outcome.h"
#include "text/json.h"
#include "verify/golden_data.h"
#include "verify/verify.h"

namespace deepinfer {
namespace {

const std::string kGoldenModels = DI_SOURCE_DIR "/tests/golden/";
const std::string kShared = DI_SOURCE_DIR "/../shared/golden/";

Outcome check_model(const std::string& dir, const std::string& only = "", VerifyModelOptions model = {"", 2}) {
  return outcome_of([&](Reporter& reporter) { return verify_model(dir, model, reporter); }, only, true);
}

std::string failures(const Outcome& out) {
  std::istringstream lines(out.text);
  std::string line, failed = out.status.message();
  while (std::getline(lines, line)) {
    if (line.find("\"ok\":false") != line.npos) failed += line + "\n";
  }
  return failed;
}

std::set<std::string> levels_of(const Outcome& out) {
  std::istringstream lines(out.text);
  std::set<std::string> levels;
  for (std::string line; std::getline(lines, line);) {
    Result<JsonValue> row = JsonValue::parse(line);
    if (!row.ok()) continue;
    const JsonValue* level = row->find("level");
    if (level != nullptr) levels.insert(level->is(JsonValue::Kind::string) ? level->string() : level->dump());
  }
  return levels;
}

TEST(VerifyModel, SmallNanoPassesAtEveryLevel) {
  const Outcome out = check_model(kGoldenModels + "nano");
  EXPECT_TRUE(out.status.ok() && out.failed == 0) << failures(out);
  EXPECT_EQ(out.cases, 11u);
  EXPECT_GT(out.checks, 250u);
  const std::set<std::string> all = {"1", "3", "4", "5", "6", "7", "8", "9", "10a", "10b", "11a", "11b"};
  EXPECT_EQ(levels_of(out), all);
}

TEST(VerifyModel, SmallOddPassesAtEveryLevelItHas) {
  const Outcome out = check_model(kGoldenModels + "odd");
  EXPECT_TRUE(out.status.ok() && out.failed == 0) << failures(out);
  const std::set<std::string> all = {"1", "3", "4", "5", "6", "7", "8", "9", "10a", "10b"};
  EXPECT_EQ(levels_of(out), all);
}

TEST(VerifyModel, SharedNanoAndOddPass) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << kShared << " is not there";
  for (const char* name : {"nano", "odd"}) {
    const Outcome out = check_model(kShared + name);
    EXPECT_TRUE(out.status.ok() && out.failed == 0) << failures(out);
    EXPECT_GT(out.checks, 350u);
  }
}

TEST(VerifyModelFull, SharedWidePasses) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << kShared << " is not there";
  const Outcome out = check_model(kShared + "wide", "", {"", 0});
  EXPECT_TRUE(out.status.ok() && out.failed == 0) << failures(out);
  EXPECT_GT(out.checks, 80u);
}

// Forced inputs are given by position: the steps that a prompt is cut into change nothing, down to the printed digits. (Where the
// worst of equal values was found may change.)
TEST(VerifyModel, StepsOfOtherSizesMeasureTheSame) {
  const auto values = [](const char* only, VerifyModelOptions options) {
    return std::regex_replace(check_model(kGoldenModels + "nano", only, options).text, std::regex(",\"at\":\"[^\"]*\""),
                              "");
  };
  for (const char* only : {"prefill_33", "replay_33", "decode_*"}) {
    const std::string whole = values(only, {"", 2, 512}), cut = values(only, {"", 1, 7});
    EXPECT_TRUE(whole == cut) << only;
    EXPECT_GT(whole.size(), 1000u);
  }
}

TEST(VerifyModel, OnlyTakesNamesWithAndWithoutTheDirectory) {
  EXPECT_EQ(check_model(kGoldenModels + "nano", "prefill_3").cases, 1u);
  EXPECT_EQ(check_model(kGoldenModels + "nano", "nano/prefill_3").cases, 1u);
  EXPECT_EQ(check_model(kGoldenModels + "nano", "weights").cases, 1u);
  EXPECT_EQ(check_model(kGoldenModels + "nano", "odd/*").cases, 0u);
}

// ------------------------------------------------------------------------------------------------------------ damaged data

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

// A copy of the small nano directory, whose files a test may change.
class Copy {
 public:
  Copy() : dir_(testing::TempDir() + "/di_verify_model_" + std::to_string(::getpid())) {
    std::filesystem::remove_all(dir_);
    std::filesystem::copy(kGoldenModels + "nano", dir_);
  }
  ~Copy() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }
  const std::string& dir() const { return dir_; }
  std::string operator/(const std::string& name) const { return dir_ + "/" + name; }

  // Replaces the first `from` of a file.
  void replace(const std::string& file, const std::string& from, const std::string& to) const {
    std::string bytes = read_bytes(dir_ + "/" + file);
    const size_t at = bytes.find(from);
    ASSERT_NE(at, bytes.npos) << from;
    write_bytes(dir_ + "/" + file, bytes.replace(at, from.size(), to));
  }

  // Overwrites elements of a tensor from element `first` on.
  template <typename T>
  void poke(const std::string& file, const std::string& tensor, size_t first, std::vector<T> values) const {
    std::string bytes = read_bytes(dir_ + "/" + file);
    uint64_t header = 0;
    std::memcpy(&header, bytes.data(), sizeof(header));
    const Result<JsonValue> json = JsonValue::parse(std::string_view(bytes).substr(8, header));
    ASSERT_TRUE(json.ok() && json->find(tensor) != nullptr) << tensor;
    const int64_t begin = json->find(tensor)->find("data_offsets")->items()[0].as_int64().value();
    std::memcpy(bytes.data() + 8 + header + static_cast<size_t>(begin) + first * sizeof(T), values.data(),
                values.size() * sizeof(T));
    write_bytes(dir_ + "/" + file, bytes);
  }

 private:
  std::string dir_;
};

void expect_failed_row(const Copy& copy, const std::string& only, const std::string& said) {
  const Outcome out = check_model(copy.dir(), only);
  EXPECT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_GT(out.failed, 0u);
  EXPECT_NE(failures(out).find(said), std::string::npos) << failures(out);
}

TEST(VerifyModelDamaged, AWrongNumberFails) {
  const Copy copy;
  copy.poke<float>("prefill_3.safetensors", "logits", 5, {1.5f});
  expect_failed_row(copy, "prefill_3", "logits rms");
}

TEST(VerifyModelDamaged, ANotANumberFails) {
  const Copy copy;
  copy.poke<float>("prefill_3.safetensors", "logits", 5, {std::nanf("")});
  expect_failed_row(copy, "prefill_3", "\"quantity\":\"logits rms\",\"value\":null");
}

TEST(VerifyModelDamaged, AWrongWeightDigestFails) {
  const Copy copy;
  copy.replace("index.json", "bc323e69d3b49ef0", "bc323e69d3b49ef1");
  expect_failed_row(copy, "weights", "embed.weight");
}

TEST(VerifyModelDamaged, AnOtherEngramConstantFails) {
  const Copy copy;
  copy.replace("index.json", "25312092204715445", "25312092204715447");
  expect_failed_row(copy, "weights", "multipliers of layer 1");
}

TEST(VerifyModelDamaged, AMissingFileIsAFailedRow) {
  const Copy copy;
  std::filesystem::remove(copy / "prefill_3.safetensors");
  expect_failed_row(copy, "prefill_3", "prefill_3.safetensors");
}

TEST(VerifyModelDamaged, ATruncatedFileIsAFailedRow) {
  const Copy copy;
  std::filesystem::resize_file(copy / "prefill_3.safetensors", 60000);
  expect_failed_row(copy, "prefill_3", "prefill_3.safetensors");
}

TEST(VerifyModelDamaged, AMissingTensorThatALevelNeedsIsNamed) {
  const Copy copy;
  copy.replace("prefill_3.safetensors", "\"tokens\"", "\"tokenz\"");
  expect_failed_row(copy, "prefill_3", "tensor tokens: missing");
}

TEST(VerifyModelDamaged, AnotherShapeIsNamed) {
  const Copy copy;
  copy.replace("prefill_3.safetensors", "[3,512]", "[6,256]");
  expect_failed_row(copy, "prefill_3", "tensor logits: F32 [6, 256]");
}

TEST(VerifyModelDamaged, AnotherDtypeIsNamed) {
  const Copy copy;
  copy.replace("prefill_3.safetensors", "\"logits\":{\"dtype\":\"F32\"", "\"logits\":{\"dtype\":\"I32\"");
  expect_failed_row(copy, "prefill_3", "tensor logits: I32 [3, 512]");
}

TEST(VerifyModelDamaged, ATokenOutsideTheVocabularyIsNamed) {
  const Copy copy;
  copy.poke<int32_t>("prefill_3.safetensors", "tokens", 1, {512});
  expect_failed_row(copy, "prefill_3", "tensor tokens: id 512");
}

TEST(VerifyModelDamaged, ASelectionOfRowsThatNobodySeesIsNamed) {
  const Copy copy;
  copy.poke<int32_t>("prefill_17.safetensors", "topk.5", 0, {1});
  expect_failed_row(copy, "prefill_17", "tensor topk.5: row 0 is not a set of rows below 1");
}

TEST(VerifyModelDamaged, ASelectionWithARowTwiceIsNamed) {
  const Copy copy;
  copy.poke<int32_t>("prefill_17.safetensors", "topk.5", 8 * 16, {1, 1});
  expect_failed_row(copy, "prefill_17", "tensor topk.5: row 16 is not a set");
}

TEST(VerifyModelDamaged, CandidatesBeyondTheConfigurationFail) {
  const Copy copy;
  copy.poke<uint8_t>("prefill_33.safetensors", "candidates.5", 32 * 33, std::vector<uint8_t>(33, 1));
  expect_failed_row(copy, "prefill_33", "candidates");
}

TEST(VerifyModelDamaged, ALengthThatTheFileDoesNotHaveIsNamed) {
  for (const char* length : {"4", "1099511627776"}) {
    const Copy copy;
    copy.replace("index.json", "\"length\": 3,", std::string("\"length\": ") + length + ",");
    expect_failed_row(copy, "prefill_3", "tensor tokens: I32 [3]");
  }
}

TEST(VerifyModelDamaged, AReplayOfAnotherSegmentIsNamed) {
  const Copy copy;
  copy.replace("index.json", "\"segment_start\": 5", "\"segment_start\": 6");
  expect_failed_row(copy, "replay_33", "a segment from 6");
}

TEST(VerifyModelDamaged, DraftsOfAnotherTokenAreNamed) {
  const Copy copy;
  copy.poke<int32_t>("dspark_p20_d60.safetensors", "output_ids", 0, {7});
  expect_failed_row(copy, "dspark_*", "tensor output_ids: draft 0 begins with 7");
}

TEST(VerifyModelDamaged, AnIndexThatCannotBeReadIsAnError) {
  const std::pair<const char*, const char*> changes[] = {{"\"kind\": \"prefill\"", "\"kind\": \"other\""},
                                                         {"\"seed\": 1", "\"seed\": -1"},
                                                         {"\"file\": \"prefill_1", "\"file\": \"../prefill_1"},
                                                         {"\"config\": \"nano\"", "\"config\": 3"},
                                                         {"\"length\": 1,", "\"length\": -1,"},
                                                         {"\"layer_ids\": [1, 3]", "\"layer_ids\": [1]"},
                                                         {"\"cases\": [", "\"cases\": {"}};
  for (const auto& [from, to] : changes) {
    const Copy copy;
    copy.replace("index.json", from, to);
    const Outcome out = check_model(copy.dir(), "prefill_1");
    EXPECT_FALSE(out.status.ok()) << to;
    EXPECT_NE(out.status.message().find("index.json"), std::string::npos) << out.status.message();
  }
}

// Bytes changed anywhere: rows fail or hold, nothing crashes (the sanitizer build runs this too).
TEST(VerifyModelDamaged, FlippedBytesNeverCrash) {
  uint64_t random = 0x9E3779B97F4A7C15u;
  const std::string sound = read_bytes(kGoldenModels + "nano/prefill_3.safetensors");
  const Copy copy;
  for (int round = 0; round < 40; ++round) {
    std::string bytes = sound;
    for (int i = 0; i < 3; ++i) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      // Half of them in the header.
      const size_t range = i % 2 == 0 ? 12000 : bytes.size();
      bytes[(random >> 33) % range] ^= static_cast<char>(1 << (random >> 60) % 8);
    }
    write_bytes(copy / "prefill_3.safetensors", bytes);
    EXPECT_TRUE(check_model(copy.dir(), "prefill_3").status.ok());
  }
}

// ---------------------------------------------------------------------------------------------------------------- dispatch

Outcome dispatch(const std::string& dir) {
  Outcome out;
  ReporterOptions options;
  options.json = true;
  options.write = [&](std::string_view line) { out.text += line; };
  Reporter reporter(options);
  out.status = verify_directory(dir, {}, reporter);
  out.checks = reporter.checks();
  return out;
}

TEST(VerifyDirectory, KindsAreKnownOrRefusedByName) {
  const Copy copy;
  for (const char* kind : {"protocol", "maskbench"}) {
    write_bytes(copy / "golden.json", std::string(R"({"kind": ")") + kind + R"(", "version": 1})");
    const Outcome out = dispatch(copy.dir());
    EXPECT_TRUE(out.status.ok());
    EXPECT_NE(out.text.find("\"reason\":\"golden kind '"), std::string::npos) << out.text;
  }
  for (const char* text :
       {R"({"kind": "models", "version": 1})", R"({"version": 1})", "{", "[]", R"({"kind": "model", "version": 2})"}) {
    write_bytes(copy / "golden.json", text);
    const Outcome out = dispatch(copy.dir());
    EXPECT_FALSE(out.status.ok()) << text;
    EXPECT_NE(out.status.message().find("golden.json"), std::string::npos) << out.status.message();
  }
  EXPECT_FALSE(dispatch(copy / "nothing").status.ok());
}

TEST(VerifyDirectory, RowsNameTheDirectory) {
  const Outcome out = dispatch(kGoldenModels + "kernels");
  EXPECT_TRUE(out.status.ok()) << out.status.message();
  EXPECT_NE(out.text.find("\"golden\":\"kernels\""), std::string::npos);
}

}  // namespace
}  // namespace deepinfer
