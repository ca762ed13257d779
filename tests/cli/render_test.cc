// The render command with the bundled tokenizer, against prompts and ids of the model's reference transcripts.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "cli/render_command.h"
#include "deepinfer/tokenizer.h"

namespace deepinfer {
namespace {

using Document = nlohmann::ordered_json;

const std::string kModel = DI_SOURCE_DIR "/models/deepseek-v4.1-tiny";

std::vector<Document> lines_of(const std::string& text) {
  std::vector<Document> out;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) out.push_back(Document::parse(line));
  return out;
}

std::vector<Document> render(const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out, errors;
  EXPECT_EQ(render_lines({.tokenizer = kModel + "/tokenizer.json"}, in, out, errors), 0) << errors.str();
  return lines_of(out.str());
}

TEST(Render, GivesTheIdsOfTheReferenceTranscripts) {
  std::map<std::string, Document> tasks;
  for (Document& task : lines_of(read_file(kModel + "/eval/tasks.jsonl").value())) tasks[task["id"]] = task;
  std::string input;
  std::vector<Document> expected;
  for (Document& transcript : lines_of(read_file(kModel + "/reference/transcripts.jsonl").value())) {
    if (transcript["kind"] != "chat") continue;
    const Document& task = tasks.at(transcript["eval_item"]);
    Document request;
    for (const char* field : {"messages", "tools", "response_format", "thinking", "reasoning_effort"}) {
      if (task.contains(field)) request[field] = task[field];
    }
    input += request.dump() + "\n";
    expected.push_back(transcript);
  }
  ASSERT_EQ(expected.size(), 10u);
  const std::vector<Document> found = render(input);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["prompt"], expected[i]["prompt"]);
    EXPECT_EQ(found[i]["ids"], expected[i]["prompt_ids"]) << expected[i]["id"];
  }
}

TEST(Render, AcceptsEveryEvaluationTask) {
  std::string input;
  size_t count = 0;
  for (Document& task : lines_of(read_file(kModel + "/eval/tasks.jsonl").value())) {
    Document request;
    for (const char* field : {"id", "messages", "thinking", "reasoning_effort"}) request[field] = task[field];
    input += request.dump() + "\n";
    ++count;
  }
  ASSERT_EQ(count, 415u);
  const std::vector<Document> found = render(input);
  ASSERT_EQ(found.size(), count);
  for (const Document& answer : found) EXPECT_FALSE(answer.contains("error")) << answer;
}

TEST(Render, EveryGoldenPromptDecodesToItself) {
  const Tokenizer tokenizer = Tokenizer::open(kModel + "/tokenizer.json").value();
  std::string input;
  std::vector<Document> golden = lines_of(read_file(DI_SOURCE_DIR "/tests/golden/chat/cases.jsonl").value());
  for (Document request : golden) {
    for (const char* field : {"kind", "prompt", "special_ranges"}) request.erase(field);
    input += request.dump() + "\n";
  }
  const std::vector<Document> found = render(input);
  ASSERT_EQ(found.size(), golden.size());
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i]["prompt"], golden[i]["prompt"]);
    EXPECT_EQ(found[i]["special_ranges"], golden[i]["special_ranges"]);
    const auto ids = found[i]["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.decode(ids).value(), golden[i]["prompt"].get<std::string>());
    // Exactly the marked ranges became added tokens.
    EXPECT_EQ(std::count_if(ids.begin(), ids.end(), [&](int32_t id) { return tokenizer.is_added(id); }),
              found[i]["special_ranges"].size());
  }
}

TEST(Render, AnswersLineByLine) {
  const std::vector<Document> found = render(
      "{\"prompt\":\"<think>hi\"}\n\n  "
      "\r\n{\"prompt_token_ids\":[0]}\nnonsense\n{\"messages\":[{\"role\":\"user\",\"content\":\"<think>\"}],\"top_q\":"
      "1}\n");
  ASSERT_EQ(found.size(), 4u);
  const Tokenizer tokenizer = Tokenizer::open(kModel + "/tokenizer.json").value();
  EXPECT_EQ(found[0]["prompt"], "<think>hi");
  EXPECT_EQ(found[0]["ids"][0].get<int32_t>(), tokenizer.token_id("<think>").value());
  EXPECT_EQ(found[1]["prompt"], "<｜begin▁of▁sentence｜>");
  EXPECT_EQ(found[2].dump(), R"({"error":"JSON: byte 0: 'n' where a value is expected"})");
  EXPECT_EQ(found[3].dump(), R"({"error":"top_q: not a field of a request; the nearest is 'top_k'"})");
}

TEST(Render, RefusesProtocolsAndTokenizersByName) {
  const auto refused = [](const RenderOptions& options) {
    std::istringstream in("{}");
    std::ostringstream out, errors;
    EXPECT_EQ(render_lines(options, in, out, errors), 2);
    EXPECT_EQ(out.str(), "");
    return errors.str();
  };
  for (const std::string protocol : {"chat", "responses", "messages"}) {
    EXPECT_EQ(refused({.protocol = protocol}),
              "deepinfer: render: --protocol " + protocol + " is not part of this version; accepted is request\n");
  }
  EXPECT_EQ(refused({.protocol = "x"}),
            "deepinfer: render: --protocol 'x' is unknown; accepted are request, chat, responses, messages\n");
  EXPECT_NE(refused({.tokenizer = "/no/such.json"}).find("/no/such.json"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer
