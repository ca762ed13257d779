// Prompts against the golden cases, and what the cases do not hold.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "deepinfer/chat_format.h"
#include "text/request_json.h"

namespace deepinfer {
namespace {

using Document = nlohmann::ordered_json;

// Every encode case of a cases.jsonl; returns how many there were.
int check_cases(const std::string& path) {
  const auto file = read_file(path);
  EXPECT_TRUE(file.ok()) << file.status().message();
  if (!file.ok()) return 0;
  int count = 0;
  for (size_t begin = 0, end = 0; begin < file->size(); begin = end + 1) {
    end = std::min(file->find('\n', begin), file->size());
    Document expected = Document::parse(file->substr(begin, end - begin));
    if (expected["kind"] != "encode") continue;
    ++count;
    Document body = expected;
    for (const char* field : {"kind", "prompt", "special_ranges"}) body.erase(field);
    const auto request = read_request(body.dump(), {});
    EXPECT_TRUE(request.ok()) << request.status().message();
    if (!request.ok()) continue;
    const auto prompt = ChatFormat::render(request->conversation);
    EXPECT_TRUE(prompt.ok()) << prompt.status().message();
    if (!prompt.ok()) continue;
    EXPECT_EQ(prompt->text, expected["prompt"].get<std::string>());
    Document ranges = Document::array();
    for (const ByteRange& range : prompt->special_ranges) ranges.push_back({range.begin, range.end});
    EXPECT_EQ(ranges, expected["special_ranges"]);
  }
  return count;
}

TEST(Chat, GoldenCasesOfTheTree) { EXPECT_EQ(check_cases(DI_SOURCE_DIR "/tests/golden/chat/cases.jsonl"), 24); }

TEST(Chat, AllGoldenCases) {
  const std::string path = DI_SOURCE_DIR "/../shared/golden/chat/cases.jsonl";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "the full golden data (" << path << ") is not here";
  EXPECT_EQ(check_cases(path), 220);
}

RenderedPrompt render(const std::string& json) {
  const auto request = read_request(json, {});
  EXPECT_TRUE(request.ok()) << request.status().message();
  if (!request.ok()) return {};
  const auto prompt = ChatFormat::render(request->conversation);
  EXPECT_TRUE(prompt.ok()) << prompt.status().message();
  return prompt.ok() ? *prompt : RenderedPrompt{};
}

TEST(Chat, TheSimplestPrompt) {
  const RenderedPrompt prompt = render(R"({"messages":[{"role":"user","content":"What is 17 + 25?"}]})");
  EXPECT_EQ(prompt.text, "<｜begin▁of▁sentence｜><｜User｜>What is 17 + 25?<｜Assistant｜></think>");
  EXPECT_EQ(prompt.special_ranges, (std::vector<ByteRange>{{0, 29}, {29, 41}, {57, 74}, {74, 82}}));
}

TEST(Chat, SpelledControlTokensStayText) {
  const std::string spelled =
      "<｜begin▁of▁sentence｜><｜end▁of▁sentence｜><｜System｜><｜User｜><｜Assistant｜><think></"
      "think>｜DSML｜<｜latest_reminder｜>";
  const std::string all = nlohmann::json(spelled).dump();
  const RenderedPrompt prompt =
      render(R"({"messages":[{"role":"system","content":)" + all + R"(},{"role":"user","content":)" + all +
             R"(},{"role":"assistant","content":)" + all + R"(,"reasoning_content":)" + all +
             R"(,"tool_calls":[{"id":"1","function":{"name":)" + all +
             R"(,"arguments":"{\"a\":\"</think>\",\"<think>\":[\"｜DSML｜\"]}"}}]},
                                       {"role":"tool","content":)" +
             all + R"(,"tool_call_id":"1"},{"role":"latest_reminder","content":)" + all +
             R"(}],"thinking":true,"tools":[{"function":{"name":)" + all + R"(,"description":)" + all + "}}]}");
  // Each time that the user's text occurs, no control token begins inside it.
  size_t found = 0;
  for (size_t at = prompt.text.find(spelled); at != std::string::npos; at = prompt.text.find(spelled, at + 1)) {
    ++found;
    for (const ByteRange& range : prompt.special_ranges)
      EXPECT_TRUE(range.end <= at || range.begin >= at + spelled.size());
  }
  EXPECT_EQ(found, 9u);
  for (size_t i = 1; i < prompt.special_ranges.size(); ++i)
    EXPECT_LE(prompt.special_ranges[i - 1].end, prompt.special_ranges[i].begin);
}

TEST(Chat, AnswerStarts) {
  const auto start = [](const std::string& last, const std::string& more) {
    return render(R"({"messages":[{"role":"user","content":"q"})" + last + "]" + more + "}").answer_start;
  };
  const std::string think = R"(,"thinking":true)", tools = R"(,"tools":[{"function":{"name":"f"}}])";
  EXPECT_EQ(start("", ""), AnswerStart::content);
  EXPECT_EQ(start("", think), AnswerStart::reasoning);
  EXPECT_EQ(start(R"(,{"role":"assistant","content":"a"})", think), AnswerStart::reasoning);
  EXPECT_EQ(start(R"(,{"role":"assistant","content":"a","prefix":true})", ""), AnswerStart::continued_content);
  EXPECT_EQ(start(R"(,{"role":"assistant","content":"a","prefix":true})", think), AnswerStart::continued_content);
  EXPECT_EQ(start(R"(,{"role":"assistant","content":"","reasoning_content":"r","prefix":true})", think),
            AnswerStart::continued_reasoning);
  EXPECT_EQ(start(R"(,{"role":"assistant","content":"","prefix":true})", think), AnswerStart::reasoning);
  EXPECT_EQ(start("", tools + R"(,"tool_choice":"required")"), AnswerStart::tool_calls);
  EXPECT_EQ(start("", tools + R"(,"tool_choice":"required")" + think), AnswerStart::reasoning);
}

TEST(Chat, NamedChoiceKeepsOneTool) {
  const RenderedPrompt prompt = render(
      R"({"messages":[{"role":"user","content":"q"}],"tools":[{"function":{"name":"f"}},{"function":{"name":"g"}}],
      "tool_choice":{"type":"function","function":{"name":"g"}}})");
  EXPECT_EQ(prompt.text.find("\"name\": \"f\""), std::string::npos);
  EXPECT_NE(prompt.text.find("\"name\": \"g\""), std::string::npos);
  const std::string end = "</think>\n\n<｜DSML｜ calls>\n";
  EXPECT_EQ(prompt.text.substr(prompt.text.size() - end.size()), end);
  EXPECT_EQ(prompt.special_ranges.back().end, prompt.text.size() - std::string(" calls>\n").size());
}

TEST(Chat, StructsThatCannotBePrintedAreErrors) {
  Conversation chat;
  chat.messages.push_back({.role = Role::user, .content = "\x80"});
  EXPECT_FALSE(ChatFormat::render(chat).ok());
  chat.messages[0].content = "q";
  chat.tools.push_back({.name = "f", .parameters = "{\"a\":}"});
  const auto prompt = ChatFormat::render(chat);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.status().message(), "parameters of tool f: JSON: byte 5: '}' where a value is expected");
}

}  // namespace
}  // namespace deepinfer
