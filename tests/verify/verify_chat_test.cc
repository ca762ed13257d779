#include "verify/verify_chat.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "outcome.h"

namespace deepinfer {
namespace {

const std::string kTree = DI_SOURCE_DIR "/tests/golden/chat";

Outcome check_chat(const std::string& dir, bool keep_going = true, const std::string& only = "") {
  return outcome_of([&](Reporter& reporter) { return verify_chat(dir, reporter); }, only, keep_going);
}

// A golden directory of this process's own with these cases: tests run beside each other.
std::string directory(const std::string& cases) {
  const std::string dir = testing::TempDir() + "/di_verify_chat_" + std::to_string(::getpid());
  std::filesystem::create_directories(dir);
  EXPECT_TRUE(write_file_atomic(dir + "/golden.json", R"({"kind":"chat","version":1,"files":["cases.jsonl"]})").ok());
  EXPECT_TRUE(write_file_atomic(dir + "/cases.jsonl", cases).ok());
  return dir;
}

TEST(VerifyChat, TheTreesCasesHold) {
  const Outcome run = check_chat(kTree);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.cases, 24u);
  EXPECT_EQ(run.checks, 48u);
  EXPECT_EQ(run.failed, 0u);
}

TEST(VerifyChat, AllCasesHoldAndParseCasesAreCounted) {
  const std::string dir = DI_SOURCE_DIR "/../shared/golden/chat";
  if (!std::filesystem::exists(dir)) GTEST_SKIP() << "the full golden data (" << dir << ") is not here";
  const Outcome run = check_chat(dir);
  EXPECT_TRUE(run.status.ok()) << run.status.message();
  EXPECT_EQ(run.cases, 220u);
  EXPECT_EQ(run.failed, 0u);
  EXPECT_EQ(run.skipped, 160u);
}

TEST(VerifyChat, WrongBytesAndRangesAreFound) {
  const std::string good =
      R"({"kind":"encode","messages":[{"role":"user","content":"hi"}],"thinking":false,"prompt":"<｜begin▁of▁sentence｜><｜User｜>hi<｜Assistant｜></think>","special_ranges":[[0,29],[29,41],[43,60],[60,68]]})";
  EXPECT_EQ(check_chat(directory(good)).failed, 0u);
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return check_chat(directory(text));
  };
  EXPECT_EQ(changed(">hi<", ">ho<").failed, 1u);
  EXPECT_EQ(changed("[43,60]", "[43,59]").failed, 1u);
  EXPECT_EQ(changed(",[60,68]", "").failed, 1u);
  EXPECT_EQ(changed("</think>\"", "</think>!\"").failed, 1u);
  EXPECT_EQ(changed("\"thinking\":false", "\"thinking\":true").failed, 2u);
  EXPECT_EQ(changed("\"thinking\":false", "\"thinks\":false").failed, 2u);  // refused: differs everywhere
  const Outcome stopped = check_chat(directory(good + "\n" + good), false);
  EXPECT_EQ(stopped.checks, 4u);
  EXPECT_EQ(check_chat(directory(good + "\n" + good), true, "chat/encode/2").checks, 2u);
}

TEST(VerifyChat, DamagedFilesAreErrorsThatNameThePlace) {
  const auto message = [](const std::string& cases) { return check_chat(directory(cases)).status.message(); };
  const std::string path = testing::TempDir() + "/di_verify_chat_" + std::to_string(::getpid()) + "/cases.jsonl";
  EXPECT_EQ(message("{\"kind\":\"encode\""), path + ":1: JSON: byte 16: the text ends where ',' or '}' is expected");
  EXPECT_EQ(message("{\"kind\":\"sing\"}"), path + ":1: kind: 'sing'; accepted are encode, parse");
  EXPECT_EQ(message("{\"kind\":\"encode\"}"), path + ":1: prompt: a string is expected");
  EXPECT_EQ(message(R"({"kind":"encode","prompt":"","special_ranges":[[1]]})"),
            path + ":1: special_ranges: [1] is not a pair of offsets");
  EXPECT_EQ(check_chat("/no/such/dir").status.code(), Code::not_found);
}

}  // namespace
}  // namespace deepinfer
