#include "deepinfer/request.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "text/request_json.h"

namespace deepinfer {
namespace {

Request good(std::string_view json, const SamplingParams& defaults = {}) {
  auto request = read_request(json, defaults);
  EXPECT_TRUE(request.ok()) << json << ": " << request.status().message();
  return request.ok() ? std::move(request).value() : Request{};
}
std::string bad(std::string_view json) {
  const auto request = read_request(json, {});
  EXPECT_FALSE(request.ok()) << json;
  return request.status().message();
}
// Body of a request with one user message and something after it.
std::string with(const std::string& more) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + (more.empty() ? "" : "," + more) + "}";
}

TEST(Request, ReadsEveryField) {
  const Request r = good(R"({"id":"x1","messages":[
      {"role":"developer","content":"rules","name":"boss","tools":[{"type":"function","function":{"name":"late"}}]},
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":""},{"type":"text","text":"b"}]},
      {"role":"assistant","content":null,"reasoning_content":"hm","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}]},
      {"role":"tool","tool_call_id":"c1","content":"42"},
      {"role":"latest_reminder","content":"be brief"},
      {"role":"assistant","content":"So","prefix":true}],
    "tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","b":1.50,"a":[]},"strict":true}},{"function":{"name":"g","description":null,"parameters":null}}],
    "tool_choice":"auto","response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"z":1,"a":2},"strict":true}},
    "thinking":true,"reasoning_effort":33,"thinking_budget":100,
    "max_tokens":10,"min_tokens":2,"temperature":0.5,"top_k":40,"top_p":0.9,"min_p":0.05,"presence_penalty":0.1,"frequency_penalty":-0.2,"repetition_penalty":1.1,
    "logit_bias":{"5":-100,"7":1.5},"stop":["a","b"],"stop_token_ids":[3,4],"ignore_eos":true,"seed":9223372036854775807,"n":2,"logprobs":0})");
  EXPECT_EQ(r.id, "x1");
  const auto& m = r.conversation.messages;
  ASSERT_EQ(m.size(), 6u);
  EXPECT_EQ(m[0].role, Role::system);
  EXPECT_EQ(m[0].name, "boss");
  ASSERT_EQ(m[0].tools.size(), 1u);
  EXPECT_EQ(m[0].tools[0].name, "late");
  EXPECT_EQ(m[1].content, "a\n\n\n\nb");
  EXPECT_EQ(m[2].reasoning_content, "hm");
  ASSERT_EQ(m[2].tool_calls.size(), 1u);
  EXPECT_EQ(m[2].tool_calls[0].id, "c1");
  EXPECT_EQ(m[2].tool_calls[0].arguments, "{\"a\": 1}");
  EXPECT_EQ(m[3].tool_call_id, "c1");
  EXPECT_EQ(m[4].role, Role::latest_reminder);
  EXPECT_TRUE(m[5].prefix);
  ASSERT_EQ(r.conversation.tools.size(), 2u);
  EXPECT_EQ(r.conversation.tools[0].parameters, R"({"type": "object", "b": 1.5, "a": []})");
  EXPECT_TRUE(r.conversation.tools[0].strict);
  EXPECT_FALSE(r.conversation.tools[1].description.has_value());
  EXPECT_EQ(r.conversation.response_format.schema, R"({"z": 1, "a": 2})");
  EXPECT_TRUE(r.conversation.thinks());
  EXPECT_EQ(r.conversation.effort(), 33);
  EXPECT_EQ(r.thinking_budget, 100);
  const SamplingParams& s = r.sampling;
  EXPECT_EQ(s.max_tokens, 10);
  EXPECT_EQ(s.min_tokens, 2);
  EXPECT_EQ(s.temperature, 0.5);
  EXPECT_EQ(s.top_k, 40);
  EXPECT_EQ(s.top_p, 0.9);
  EXPECT_EQ(s.min_p, 0.05);
  EXPECT_EQ(s.presence_penalty, 0.1);
  EXPECT_EQ(s.frequency_penalty, -0.2);
  EXPECT_EQ(s.repetition_penalty, 1.1);
  EXPECT_EQ(s.logit_bias, (std::vector<std::pair<int32_t, double>>{{5, -100}, {7, 1.5}}));
  EXPECT_EQ(s.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(s.stop_token_ids, (std::vector<int32_t>{3, 4}));
  EXPECT_TRUE(s.ignore_eos);
  EXPECT_EQ(s.seed, static_cast<uint64_t>(INT64_MAX));
  EXPECT_EQ(s.n, 2);
  EXPECT_EQ(s.logprobs, 0);
}

TEST(Request, NullIsAbsentAndDefaultsHold) {
  SamplingParams defaults;
  defaults.temperature = 0;
  defaults.max_tokens = 7;
  const Request r = good(
      R"({"messages":[{"role":"user","content":"hi","name":null}],"id":null,"prompt":null,"prompt_token_ids":null,"tools":null,"tool_choice":null,"response_format":null,
          "thinking":null,"reasoning_effort":null,"temperature":null,"top_p":0.5,"stop":null,"seed":null,"logprobs":null,"max_tokens":null,"logit_bias":null})",
      defaults);
  EXPECT_EQ(r.sampling.temperature, 0);
  EXPECT_EQ(r.sampling.max_tokens, 7);
  EXPECT_EQ(r.sampling.top_p, 0.5);
  EXPECT_FALSE(r.sampling.seed.has_value());
  EXPECT_FALSE(r.conversation.thinks());
}

TEST(Request, OnePromptOfThree) {
  EXPECT_EQ(good(R"({"prompt":"<｜User｜>"})").prompt, "<｜User｜>");
  EXPECT_EQ(good(R"({"prompt_token_ids":[0,5]})").prompt_token_ids, (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(bad("{}"), "a request needs exactly one of messages, prompt, prompt_token_ids; this one has none");
  EXPECT_EQ(bad(with(R"("prompt":"x")")),
            "a request needs exactly one of messages, prompt, prompt_token_ids; this one has messages, prompt");
  EXPECT_EQ(bad(R"({"prompt":"x","prompt_token_ids":[1]})"),
            "a request needs exactly one of messages, prompt, prompt_token_ids; this one has prompt, prompt_token_ids");
  EXPECT_EQ(bad(R"({"messages":[]})"), "messages: the list is empty");
  EXPECT_EQ(bad(R"({"prompt":""})"), "prompt: empty");
  EXPECT_EQ(bad(R"({"prompt_token_ids":[]})"), "prompt_token_ids: empty");
  EXPECT_EQ(bad(R"({"prompt_token_ids":[1,-1]})"), "prompt_token_ids[1]: -1 is not a token id");
  EXPECT_EQ(bad(R"({"prompt":"x","thinking":false})"), "thinking: only with messages; this request has prompt");
  EXPECT_EQ(bad(R"({"prompt":"x","tools":[{"function":{"name":"f"}}]})"),
            "tools: only with messages; this request has prompt");
}

TEST(Request, RefusalsNameTheField) {
  const std::pair<std::string, const char*> cases[] = {
      {with(R"("temprature":1)"), "temprature: not a field of a request; the nearest is 'temperature'"},
      {with(R"("max_token":null)"), "max_token: not a field of a request; the nearest is 'max_tokens'"},
      {with(R"("temperature":"hot")"), "temperature: a string where a number is expected"},
      {with(R"("temperature":-0.1)"), "temperature: -0.1 is outside 0 to 100"},
      {with(R"("top_k":1.0)"), "top_k: a number where an integer of 64 bits is expected"},
      {with(R"("top_k":-2)"), "top_k: -2 is neither a number of tokens nor 0 or -1 (all)"},
      {with(R"("top_p":0)"), "top_p: 0 is not above 0 and at most 1"},
      {with(R"("min_p":1.5)"), "min_p: 1.5 is outside 0 to 1"},
      {with(R"("presence_penalty":2.5)"), "presence_penalty: 2.5 is outside -2 to 2"},
      {with(R"("frequency_penalty":-3)"), "frequency_penalty: -3 is outside -2 to 2"},
      {with(R"("repetition_penalty":0)"), "repetition_penalty: 0 is not above 0 and at most 10"},
      {with(R"("max_tokens":0)"), "max_tokens: 0 is below 1"},
      {with(R"("max_tokens":99999999999999999999)"), "max_tokens: a number where an integer of 64 bits is expected"},
      {with(R"("max_tokens":3,"min_tokens":4)"), "min_tokens: 4 is above max_tokens (3)"},
      {with(R"("seed":-1)"), "seed: an integer where an integer from 0 to 2^63 - 1 is expected"},
      {with(R"("seed":9223372036854775808)"), "seed: 9223372036854775808 is not below 2^63"},
      {with(R"("n":0)"), "n: 0 is outside 1 to 128"},
      {with(R"("n":4294967297)"), "n: 4294967297 where an integer of 32 bits is expected"},
      {with(R"("logprobs":21)"), "logprobs: 21 is outside 0 to 20"},
      {with(R"("logprobs":true)"), "logprobs: a boolean where an integer of 32 bits is expected"},
      {with(R"("logit_bias":{"x":1})"), "logit_bias: 'x' is not a token id"},
      {with(R"("logit_bias":{"1":101})"), "logit_bias[1]: 101 is outside -100 to 100"},
      {with(R"("logit_bias":{"1":1,"01":1})"), "logit_bias[1]: given twice"},
      {with(R"("logit_bias":[1])"), "logit_bias: a list where an object (id to number) is expected"},
      {with(R"("stop":[1])"), "stop[0]: an integer where a string is expected"},
      {with(R"("stop":"")"), "stop[0]: empty"},
      {with(R"("stop_token_ids":[1,"2"])"), "stop_token_ids[1]: a string where an integer of 32 bits is expected"},
      {with(R"("ignore_eos":1)"), "ignore_eos: an integer where true or false is expected"},
      {with(R"("thinking":{"type":"enabled"})"), "thinking: an object where true or false is expected"},
      {with(R"("reasoning_effort":0)"),
       "reasoning_effort: 0; accepted are none, minimal, low, medium, high, xhigh, max, ultra, or 1 to 100"},
      {with(R"("reasoning_effort":"High")"),
       "reasoning_effort: 'High'; accepted are none, minimal, low, medium, high, xhigh, max, ultra, or 1 to 100"},
      {with(R"("thinking_budget":5)"), "thinking_budget: the request does not think"},
      {with(R"("tool_choice":"required")"), "tool_choice: a call is asked for, but there are no tools"},
      {with(R"("tool_choice":"any")"),
       "tool_choice: 'any'; accepted are auto, none, required, or an object that names a function"},
      {with(R"("tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}})"),
       "tool_choice: no tool is named 'g'"},
      {with(R"("tools":[{"function":{"name":"f"}},{"function":{"name":"f"}}])"),
       "tools[1].function.name: 'f' is declared twice"},
      {with(R"("tools":[{"type":"custom","function":{"name":"f"}}])"),
       "tools[0].type: 'custom' where 'function' is expected"},
      {with(R"("tools":[{"function":{"name":""}}])"), "tools[0].function.name: a tool needs a name"},
      {with(R"("tools":[{"function":{"name":"f","parameters":[]}}])"),
       "tools[0].function.parameters: a list where an object is expected"},
      {with(R"("tools":[{"function":{"name":"f","parameter":{}}}])"),
       "tools[0].function.parameter: not a field of a function; the nearest is 'parameters'"},
      {with(R"("tools":[{"name":"f"}])"), "tools[0].function: missing"},
      {with(R"("response_format":{"type":"xml"})"),
       "response_format.type: 'xml'; accepted are text, json_object, json_schema, regex, ebnf"},
      {with(R"("response_format":{"type":"json_schema"})"), "response_format.json_schema: missing"},
      {with(R"("response_format":{"type":"text","regex":"a"})"),
       "response_format.regex: not a field of response_format of type text; the nearest is 'type'"},
      {R"({"messages":[{"role":"user","content":"a"},{"role":"robot","content":"x"}]})",
       "messages[1].role: 'robot'; accepted are system, developer, user, assistant, tool, latest_reminder"},
      {R"({"messages":[{"content":"a"}]})", "messages[0].role: missing"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content: missing"},
      {R"({"messages":[{"role":"assistant","reasoning_content":"a"}]})", "messages[0].content: missing"},
      {R"({"messages":[{"role":"user","content":1}]})",
       "messages[0].content: an integer where a string or a list of parts is expected"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "messages[0].content[0].type: 'image_url': image input is not supported, only text"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content[0].text: missing"},
      {R"({"messages":[{"role":"user","content":["a"]}]})",
       "messages[0].content[0]: a string where an object is expected"},
      {R"({"messages":[{"role":"user","content":"a","tool_calls":[]}]})",
       "messages[0].tool_calls: not a field of a message of role user; the nearest is 'role'"},
      {R"({"messages":[{"role":"assistant","content":"a","prefix":true},{"role":"user","content":"b"}]})",
       "messages[0].prefix: only the last message can be continued"},
      {R"({"messages":[{"role":"assistant","content":"a","tool_calls":[{"id":"1","function":{"name":"f","arguments":{}}}]}]})",
       "messages[0].tool_calls[0].function.arguments: an object where a string is expected"},
      {R"({"messages":[{"role":"assistant","content":"a","tool_calls":[{"id":"1","function":{"name":"f"}}]}]})",
       "messages[0].tool_calls[0].function.arguments: missing"},
      {R"({"messages":"hi"})", "messages: a string where a list is expected"},
      {R"([])", "request: a list where an object is expected"},
      {R"({"prompt":"\ud800"})", "JSON: byte 11: a \\u escape of half a surrogate pair is no character"},
  };
  for (const auto& [json, message] : cases) EXPECT_EQ(bad(json), message) << json;
  EXPECT_EQ(read_request(R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})", {}).status().code(),
            Code::unsupported);
}

// Prompts of the release's own encoder, and the evaluation tasks bundled with the model, carry tools and the answer's schema in
// the first system message.
TEST(Request, TheFirstSystemMessageMayCarryToolsAndFormat) {
  const std::string tool = R"({"type":"function","function":{"name":"f"}})", schema = R"({"type":"object","b":1})";
  const auto body = [&](const std::string& fields, const std::string& more) {
    return R"({"messages":[{"role":"system","content":"s")" + fields + R"(},{"role":"user","content":"q"}])" + more +
           "}";
  };
  const Conversation moved = good(body(R"(,"tools":[)" + tool + R"(],"response_format":)" + schema, "")).conversation;
  ASSERT_EQ(moved.tools.size(), 1u);
  EXPECT_TRUE(moved.messages[0].tools.empty());
  EXPECT_EQ(moved.response_format.kind, ResponseFormat::Kind::json_schema);
  EXPECT_EQ(moved.response_format.schema, R"({"type": "object", "b": 1})");
  const Conversation object = good(body(R"(,"response_format":{"type":"json_object"})", "")).conversation;
  EXPECT_EQ(object.response_format.kind, ResponseFormat::Kind::json_object);
  // Beside tools of the request they are tools that were added later.
  const Conversation both =
      good(body(R"(,"tools":[)" + tool + "]", R"(,"tools":[{"function":{"name":"g"}}])")).conversation;
  EXPECT_EQ(both.tools[0].name, "g");
  EXPECT_EQ(both.messages[0].tools[0].name, "f");
  EXPECT_EQ(bad(body(R"(,"response_format":)" + schema, R"(,"response_format":{"type":"text"})")),
            "response_format: given twice, here and in messages[0]");
  EXPECT_EQ(bad(R"({"messages":[{"role":"user","content":"q"},{"role":"system","content":"s","response_format":{}}]})"),
            "messages[1].response_format: not a field of a message of role system; the nearest is 'content'");
}

TEST(Request, EffortAndThinking) {
  const auto chat = [](const std::string& more) { return good(with(more)).conversation; };
  EXPECT_FALSE(chat("").thinks());
  EXPECT_TRUE(chat(R"("thinking":true)").thinks());
  EXPECT_EQ(chat(R"("thinking":true)").effort(), 75);
  EXPECT_TRUE(chat(R"("reasoning_effort":"low")").thinks());
  EXPECT_EQ(chat(R"("reasoning_effort":"low")").effort(), 50);
  EXPECT_EQ(chat(R"("reasoning_effort":"max")").effort(), 100);
  EXPECT_EQ(chat(R"("reasoning_effort":1)").effort(), 1);
  EXPECT_FALSE(chat(R"("reasoning_effort":"none")").thinks());
  EXPECT_FALSE(chat(R"("thinking":false,"reasoning_effort":"high")").thinks());
  EXPECT_TRUE(chat(R"("thinking":true,"reasoning_effort":"none")").thinks());
  EXPECT_EQ(chat(R"("thinking":true,"reasoning_effort":"none")").effort(), 75);
}

TEST(Request, StructsAreCheckedLikeJson) {
  Request request;
  request.conversation.messages.push_back({.role = Role::user, .content = "a\xff"});
  EXPECT_EQ(validate(request).message(), "messages[0].content: not valid UTF-8 (byte 1)");
  request.conversation.messages[0].content = "a";
  EXPECT_TRUE(validate(request).ok());
  request.conversation.messages[0].tool_call_id = "1";
  EXPECT_EQ(validate(request).message(), "messages[0].tool_call_id: not a field of user messages");
  request.conversation.messages[0].tool_call_id.reset();
  request.conversation.tools.push_back({.name = "f", .parameters = "{"});
  EXPECT_EQ(validate(request).message(),
            "tools[0].function.parameters: JSON: byte 1: the text ends where a key is expected");
  request.conversation.tools.clear();
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    for (double SamplingParams::*field :
         {&SamplingParams::temperature, &SamplingParams::top_p, &SamplingParams::min_p,
          &SamplingParams::presence_penalty, &SamplingParams::frequency_penalty, &SamplingParams::repetition_penalty}) {
      SamplingParams params;
      params.*field = value;
      EXPECT_EQ(params.validate().code(), Code::invalid_argument);
    }
  }
}

TEST(Request, WhatThisVersionDoesNotDoIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {R"("stop":"x")", "stop"},
      {R"("n":2)", "n"},
      {R"("tools":[{"function":{"name":"f"}}])", "tools"},
      {R"("response_format":{"type":"json_object"})", "response_format"},
      {R"("thinking":true,"thinking_budget":9)", "thinking_budget"},
  };
  for (const auto& [more, field] : cases) {
    const Status status = supported_now(good(with(more)));
    EXPECT_EQ(status.code(), Code::unsupported) << more;
    EXPECT_EQ(status.message().substr(0, std::string(field).size() + 2), std::string(field) + ": ") << status.message();
  }
  EXPECT_TRUE(
      supported_now(
          good(with(
              R"("temperature":0.7,"top_k":5,"top_p":0.9,"min_p":0.1,"seed":1,"max_tokens":5,"min_tokens":1,"stop_token_ids":[1],
      "ignore_eos":true,"thinking":true,"reasoning_effort":10,"tools":[{"function":{"name":"f"}}],"tool_choice":"none","presence_penalty":1,"frequency_penalty":1,"repetition_penalty":2,"logit_bias":{"1":1},"logprobs":5,"n":1)")))
          .ok());
}

TEST(Request, NoBytesDoHarm) {
  const std::string whole = with(
      R"("tools":[{"function":{"name":"f","parameters":{"type":"object"}}}],"logit_bias":{"1":1e-3},"stop":["a"],"seed":1,"reasoning_effort":"low")");
  std::mt19937_64 random(4);
  int accepted = 0;
  for (size_t cut = 0; cut < whole.size(); ++cut) EXPECT_FALSE(read_request(whole.substr(0, cut), {}).ok());
  for (int i = 0; i < 20000; ++i) {
    std::string text = whole;
    for (size_t n = 1 + random() % 3; n > 0; --n)
      text[random() % text.size()] = static_cast<char>(random() % 3 == 0 ? random() : "{}[],:\"\\0nx"[random() % 11]);
    accepted += read_request(text, {}).ok();
  }
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace deepinfer
