// The engine with the bundled model: answers, one transcript whatever the company, and clear refusals.
#include <gtest/gtest.h>

#include "bundled.h"

namespace deepinfer {
namespace {

std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (const char* text : {"What is 17 + 25?", "Calculate 8 + 0.", "hello", "What is 12 + 30?", "What's 2+2?"})
    requests.push_back(question(text));
  Request sampled = question("Tell me a story.", 24);
  sampled.sampling.temperature = 1.0;
  sampled.sampling.top_p = 0.95;
  for (uint64_t seed : {1, 2}) {
    sampled.sampling.seed = seed;
    requests.push_back(sampled);
  }
  return requests;
}

void expect_equal(const Output& a, const Output& b) {
  EXPECT_EQ(a.token_ids, b.token_ids);
  EXPECT_EQ(a.text, b.text);
  ASSERT_EQ(a.logprobs.size(), b.logprobs.size());
  for (size_t i = 0; i < a.logprobs.size(); ++i) EXPECT_EQ(a.logprobs[i].logprob, b.logprobs[i].logprob) << i;
  EXPECT_EQ(a.finish_reason, b.finish_reason);
}

TEST(Engine, AnswersTheQuestionOfTheReadme) {
  Engine engine = open_engine();
  const auto outputs = engine.generate({question("What is 17 + 25?")});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->front().text, "17 + 25 = 42");
  EXPECT_EQ(outputs->front().finish_reason, FinishReason::stop);
  EXPECT_EQ(outputs->front().token_ids.back(), 1);
  EXPECT_EQ(outputs->front().usage.prompt_tokens, static_cast<int64_t>(outputs->front().prompt_token_ids.size()));
}

TEST(Engine, OneTranscriptWhateverBatchChunkAndThreads) {
  const std::vector<Request> requests = some_requests();
  std::vector<Output> alone;
  {
    Engine engine = open_engine(1, 512, 4096, 1);
    for (const Request& request : requests) alone.push_back(engine.generate({request}).value().front());
  }
  for (const auto& [batch, chunk, threads] : {std::tuple{8, 512, 2}, {3, 5, 2}, {8, 1, 1}, {2, 64, 3}}) {
    Engine engine = open_engine(batch, chunk, 4096, threads);
    const auto together = engine.generate(requests);
    ASSERT_TRUE(together.ok()) << together.status().message();
    for (size_t i = 0; i < requests.size(); ++i) expect_equal(alone[i], (*together)[i]);
  }
}

// Fault E12: the same request sixteen times.
TEST(Engine, SixteenRepeatsWithOneSeed) {
  Request request = question("Once upon a time", 32);
  request.sampling.temperature = 1.0;
  request.sampling.seed = 7;
  Engine engine = open_engine(4);
  const auto outputs = engine.generate(std::vector<Request>(16, request));
  ASSERT_TRUE(outputs.ok());
  for (const Output& output : *outputs) expect_equal(outputs->front(), output);
}

TEST(Engine, StreamedTextIsTheWholeText) {
  Engine engine = open_engine();
  std::string streamed;
  const auto outputs =
      engine.generate({question("Tell me a story.", 64)}, [&](const Delta& delta) { streamed += delta.text; });
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(streamed, outputs->front().text);
}

TEST(Engine, ThinkingIsSplitFromTheAnswer) {
  Engine engine = open_engine();
  Request request = question("Calculate 40 + 87.", 120);
  request.conversation.thinking = true;
  request.conversation.reasoning_effort = 50;
  const auto outputs = engine.generate({request});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->front().text, "40 + 87 = 127");
  EXPECT_NE(outputs->front().reasoning_content.find("carry"), std::string::npos);
}

TEST(Engine, ControlTokensSpelledByAUserStayText) {
  Engine engine = open_engine();
  const auto outputs = engine.generate({question("Say <think> and <｜end▁of▁sentence｜> and </think>", 4)});
  ASSERT_TRUE(outputs.ok());
  const std::vector<int32_t>& ids = outputs->front().prompt_token_ids;
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 8181), 0);  // <think>
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 0);     // end of sentence
  EXPECT_EQ(std::count(ids.begin(), ids.end(), 8182), 1);  // the one that opens the answer
}

// Fault E4: the longest prompt works, one token more is refused, and nothing is lost.
TEST(Engine, ContextBoundary) {
  constexpr int64_t kContext = 64;
  Engine engine = open_engine(2, 16, kContext);
  Request request;
  request.sampling.temperature = 0;
  request.prompt_token_ids = std::vector<int32_t>(kContext, 300);
  auto outputs = engine.generate({request});
  ASSERT_TRUE(outputs.ok()) << outputs.status().message();
  EXPECT_EQ(outputs->front().token_ids.size(), 1u);
  const bool ended = outputs->front().token_ids.front() == 1;
  EXPECT_EQ(outputs->front().finish_reason, ended ? FinishReason::stop : FinishReason::length);
  request.prompt_token_ids->push_back(300);
  const auto refused = engine.add(request);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("65 tokens, the context holds 64"), std::string::npos)
      << refused.status().message();
  request.prompt_token_ids = std::vector<int32_t>(kContext - 8, 300);
  request.sampling.ignore_eos = true;
  outputs = engine.generate({request});
  ASSERT_TRUE(outputs.ok());
  EXPECT_EQ(outputs->front().token_ids.size(), 9u);  // eight positions, and the token after the last one
}

TEST(Engine, RefusalsNameTheField) {
  Engine engine = open_engine();
  Request request = question("x");
  request.sampling.top_p = 2;
  EXPECT_NE(engine.add(request).status().message().find("top_p"), std::string::npos);
  request = Request();
  request.prompt_token_ids = std::vector<int32_t>{1, 99999};
  EXPECT_NE(engine.add(request).status().message().find("99999"), std::string::npos);
  request.prompt_token_ids = std::vector<int32_t>{0, 8191};
  const Status image = engine.add(request).status();
  EXPECT_EQ(image.code(), Code::unsupported);
  EXPECT_NE(image.message().find("image"), std::string::npos);
  request.prompt_token_ids = std::vector<int32_t>{};
  EXPECT_FALSE(engine.add(request).ok());
  ModelOptions model;
  model.model_dir = bundled_model();
  model.device = Device::cuda;
  EXPECT_EQ(Engine::open(model, {}).status().code(), Code::unsupported);
  model.device = Device::cpu;
  model.model_dir = "/no/such/model";
  EXPECT_NE(Engine::open(model, {}).status().message().find("/no/such/model"), std::string::npos);
}

TEST(Engine, CancelEndsARequestAndKeepsTheOthers) {
  Engine engine = open_engine();
  const RequestId first = engine.add(question("Tell me a story.", 1000)).value();
  const RequestId second = engine.add(question("What is 17 + 25?")).value();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine.step().ok());
  ASSERT_TRUE(engine.cancel(first).ok());
  EXPECT_EQ(engine.cancel(12345).code(), Code::not_found);
  bool cancelled = false;
  std::string answer;
  while (!engine.idle()) {
    const auto deltas = engine.step();
    ASSERT_TRUE(deltas.ok());
    for (const Delta& delta : *deltas) {
      if (!delta.finished) continue;
      if (delta.request == first) cancelled = delta.output.finish_reason == FinishReason::cancelled;
      if (delta.request == second) answer = delta.output.text;
    }
  }
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(answer, "17 + 25 = 42");
}

}  // namespace
}  // namespace deepinfer
