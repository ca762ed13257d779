// The golden tokenizer data: the part in the repository (quick), the full set where it exists (full), for the bundled
// tokenizer and for the released one if it can be rebuilt here; and that differences are found.
#include "verify/verify_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "outcome.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

const std::string kGoldenTokenizer = DI_SOURCE_DIR "/tests/golden/tokenizer";
const std::string kSharedTokenizer = DI_SOURCE_DIR "/../shared/golden/tokenizer";
const std::string kTiny = DI_SOURCE_DIR "/models/deepseek-v4.1-tiny/tokenizer.json";

// The released tokenizer.json, rebuilt for this test process; empty, with the script's reason printed, where that
// cannot be.
std::string v41_path() {
  const std::string path = testing::TempDir() + "/di_v41_" + std::to_string(getpid()) + ".json";
  const std::string command = "python3 '" + kGoldenTokenizer + "/v41_tokenizer.py' '" + path + "'";
  return std::system(command.c_str()) == 0 ? path : "";
}

Outcome check_tokenizer(const std::string& dir, const std::string& tiny, const std::string& v41,
                        const std::string& only = {}, bool keep_going = true) {
  return outcome_of([&](Reporter& reporter) { return verify_tokenizer(dir, tiny, v41, reporter); }, only, keep_going);
}

void expect_all_right(const Outcome& outcome, size_t cases) {
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(outcome.failed, 0u) << outcome.text;
  EXPECT_EQ(outcome.cases, cases);
}

TEST(VerifyTokenizer, BundledTokenizer) {
  const Outcome outcome = check_tokenizer(kGoldenTokenizer, kTiny, "");
  expect_all_right(outcome, 601 + 4);
  EXPECT_EQ(outcome.skipped, 1u);
  EXPECT_NE(outcome.text.find("no file of the released tokenizer was given"), std::string::npos);
}

TEST(VerifyTokenizer, ReleasedTokenizer) {
  const std::string v41 = v41_path();
  if (v41.empty()) GTEST_SKIP() << "the released tokenizer could not be rebuilt; the line above says why";
  expect_all_right(check_tokenizer(kGoldenTokenizer, kTiny, v41, "v41/*"), 376 + 4);
  fs::remove(v41);
}

TEST(VerifyTokenizerFull, BothTokenizers) {
  if (!fs::exists(kSharedTokenizer))
    GTEST_SKIP() << kSharedTokenizer << " does not exist; the part in tests/golden was checked";
  const std::string v41 = v41_path();
  if (v41.empty()) std::printf("SKIPPED: the released tokenizer's cases; the line above says why\n");
  expect_all_right(check_tokenizer(kSharedTokenizer, kTiny, v41), v41.empty() ? 1554 + 4 : 1554 + 4 + 1692 + 4);
  if (!v41.empty()) fs::remove(v41);
}

// A tokenizer that is wrong in one place must not pass.
TEST(VerifyTokenizer, FindsWrongTokenizers) {
  const nlohmann::json good = nlohmann::json::parse(read_file(kTiny).value());
  const std::string path = testing::TempDir() + "/di_wrong_" + std::to_string(getpid()) + ".json";
  const auto failures = [&](const nlohmann::json& json, const std::string& only) {
    EXPECT_TRUE(write_file_atomic(path, json.dump()).ok());
    const Outcome outcome = check_tokenizer(kGoldenTokenizer, path, "", only);
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    return outcome.text;
  };
  nlohmann::json ranks = good;  // the first merges in the opposite order
  std::reverse(ranks["model"]["merges"].begin(), ranks["model"]["merges"].begin() + 40);
  EXPECT_NE(failures(ranks, "language/*").find("\"level\":\"ids\""), std::string::npos);

  nlohmann::json added = good;  // a control token that is not recognised, and a flag that is not set
  for (nlohmann::json& token : added["added_tokens"]) {
    if (token["content"] == "<think>") token["content"] = "<something else>";
  }
  EXPECT_NE(failures(added, "special/*").find("\"level\":\"ids\""), std::string::npos);
  nlohmann::json flag = good;
  flag["added_tokens"][0]["special"] = false;
  EXPECT_NE(failures(flag, "decode/*").find("text without special"), std::string::npos);

  nlohmann::json ids = good;  // two ids exchanged
  std::swap(ids["model"]["vocab"]["a"], ids["model"]["vocab"]["b"]);
  EXPECT_NE(failures(ids, "language/*").find("\"level\":\"ids_plain\""), std::string::npos);
  EXPECT_NE(failures(ids, "decode/*").find("\"level\":\"decode\""), std::string::npos);
  EXPECT_NE(failures(ids, "decode/*").find("\"level\":\"stream\""), std::string::npos);
  EXPECT_NE(failures(ids, "sweeps/vocabulary").find("\"level\":\"sweeps\""), std::string::npos);
  EXPECT_NE(failures(ids, "engram-map").find("\"level\":\"engram\""), std::string::npos);
  fs::remove(path);
}

TEST(VerifyTokenizer, StopsAtTheFirstDifferenceAndSelectsByName) {
  const nlohmann::json good = nlohmann::json::parse(read_file(kTiny).value());
  const std::string path = testing::TempDir() + "/di_first_" + std::to_string(getpid()) + ".json";
  nlohmann::json ids = good;
  std::swap(ids["model"]["vocab"]["a"], ids["model"]["vocab"]["b"]);
  ASSERT_TRUE(write_file_atomic(path, ids.dump()).ok());
  const Outcome first = check_tokenizer(kGoldenTokenizer, path, "", {}, false);
  EXPECT_GT(first.failed, 0u);
  EXPECT_LT(first.cases, 100u);
  fs::remove(path);

  EXPECT_EQ(check_tokenizer(kGoldenTokenizer, kTiny, "", "engram-map").cases, 1u);
  EXPECT_EQ(check_tokenizer(kGoldenTokenizer, kTiny, "", "tiny/sweeps/vocabulary").cases, 1u);
  EXPECT_EQ(check_tokenizer(kGoldenTokenizer, kTiny, "", "engram-map").skipped, 1u);  // of v41
  EXPECT_EQ(check_tokenizer(kGoldenTokenizer, kTiny, "", "tiny/ascii/*").skipped, 0u);
  EXPECT_EQ(check_tokenizer(kGoldenTokenizer, kTiny, "", "v41/*").cases, 0u);
}

// Golden files that are damaged are errors with a place, not crashes and not passes.
TEST(VerifyTokenizer, DamagedGoldenFiles) {
  const std::string dir = testing::TempDir() + "/di_golden_" + std::to_string(getpid());
  fs::create_directories(dir);
  ASSERT_TRUE(write_file_atomic(dir + "/cases-v41.jsonl", "").ok());
  const auto message = [&](const std::string& cases, const std::string& sweeps = {}, const std::string& map = {}) {
    EXPECT_TRUE(write_file_atomic(dir + "/cases-tiny.jsonl", cases).ok());
    for (const auto& [file, content] : {std::pair{"/sweeps.json", sweeps}, std::pair{"/engram-map.json", map}}) {
      fs::remove(dir + file);
      if (content.empty()) continue;
      EXPECT_TRUE(write_file_atomic(dir + file, content).ok());
    }
    return check_tokenizer(dir, kTiny, "").status.message();
  };
  const std::string good = R"({"name":"x/1","text":"a","ids":[67],"ids_plain":[67],"pieces":[1]})";
  EXPECT_EQ(message(good + "\n"), "");
  EXPECT_NE(message(good + "\nnot json\n").find("cases-tiny.jsonl:2: not a JSON object"), std::string::npos);
  EXPECT_NE(message(R"({"name":"x","text":"a","ids":[67],"pieces":[1]})").find("ids_plain is missing"),
            std::string::npos);
  EXPECT_NE(message(R"({"name":"x","text":3,"ids":[],"ids_plain":[],"pieces":[]})").find("text is neither"),
            std::string::npos);
  EXPECT_NE(message(R"({"name":"x","text":"a","ids":["a"],"ids_plain":[],"pieces":[]})").find("ids holds \"a\""),
            std::string::npos);
  EXPECT_NE(
      message(R"({"name":"x","text":"a","ids":[],"ids_plain":[],"pieces":[],"more":1})").find("more is not a field"),
      std::string::npos);
  EXPECT_NE(message(R"({"name":"x","text":{"repeat":["ab",99999999999]},"ids":[],"ids_plain":[],"pieces":[]})")
                .find("repeats too"),
            std::string::npos);
  EXPECT_NE(message(R"({"name":"x","text":"a","ids":{"rle":[[1]]},"ids_plain":[],"pieces":[]})").find("has a run"),
            std::string::npos);
  EXPECT_NE(message(R"({"name":"x","decode_ids":[9999999999],"bytes_hex":"","decoded":"","stream":[]})")
                .find("which is no id"),
            std::string::npos);
  EXPECT_NE(message(R"({"name":"x","decode_ids":[],"bytes_hex":"0g","decoded":"","stream":[]})").find("no hex digit"),
            std::string::npos);
  EXPECT_NE(message(good, "[]").find("sweeps.json: not a JSON object"), std::string::npos);
  EXPECT_NE(message(good, R"({"tiny":{"other":{}}})").find("unknown sweep other"), std::string::npos);
  EXPECT_NE(message(good, R"({"tiny":{"vocabulary":{"text":"x","blocks":[]}}})").find("vocabulary.text is \"x\""),
            std::string::npos);
  EXPECT_NE(message(good, R"({"tiny":{"short_strings":{"alphabet":"ab","blocks":{"a":"0"}}}})").find("no block"),
            std::string::npos);
  EXPECT_NE(message(good, {}, R"({"tiny":{"vocab_size":8192}})").find("classes is missing"), std::string::npos);
  EXPECT_NE(
      message(good, {}, R"({"tiny":{"vocab_size":"8192","classes":1,"first_64":[],"samples":[],"sha256_int32_le":""}})")
          .find("wrong kind"),
      std::string::npos);
  fs::remove_all(dir);
}

}  // namespace
}  // namespace deepinfer
