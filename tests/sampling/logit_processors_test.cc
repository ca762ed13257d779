#include "sampling/logit_processors.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace deepinfer {
namespace {

TEST(LogitProcessors, EqualBruteForce) {
  std::mt19937_64 random(2);
  std::normal_distribution<float> normal(0, 5);
  std::uniform_real_distribution<double> penalty(-2, 2), factor(0.2, 3), bias(-100, 100);
  for (int round = 0; round < 300; ++round) {
    const size_t vocabulary = 20 + random() % 100;
    std::vector<float> raw(vocabulary), out;
    for (float& x : raw) x = normal(random);
    std::vector<int32_t> prompt(random() % 40), answer(random() % 40), excluded(random() % 3);
    for (auto* list : {&prompt, &answer, &excluded}) {
      for (int32_t& id : *list) id = static_cast<int32_t>(random() % vocabulary);
    }
    SamplingParams params;
    if (random() % 2) params.presence_penalty = penalty(random);
    if (random() % 2) params.frequency_penalty = penalty(random);
    if (random() % 2) params.repetition_penalty = factor(random);
    if (random() % 2) params.logit_bias = {{3, bias(random)}, {0, bias(random)}};
    TokenCounts counts;
    counts.add_prompt(prompt);
    for (const int32_t id : answer) counts.add(id);
    for (int i = 0; i < 5; ++i) counts.add(7);
    for (int i = 0; i < 5; ++i) counts.remove(7);
    ASSERT_TRUE(process_logits(raw, params, counts, excluded, out).ok());

    for (size_t v = 0; v < vocabulary; ++v) {
      const auto id = static_cast<int32_t>(v);
      const auto in_answer = std::count(answer.begin(), answer.end(), id);
      float expected = raw[v];
      if (in_answer > 0 || std::count(prompt.begin(), prompt.end(), id) > 0) {
        const auto repetition = static_cast<float>(params.repetition_penalty);
        expected = expected > 0 ? expected / repetition : expected * repetition;
      }
      expected = expected - static_cast<float>(params.frequency_penalty) * static_cast<float>(in_answer);
      if (in_answer > 0) expected = expected - static_cast<float>(params.presence_penalty);
      for (const auto& [biased, value] : params.logit_bias) {
        if (biased == id) expected = expected + static_cast<float>(value);
      }
      if (std::count(excluded.begin(), excluded.end(), id) > 0) expected = -std::numeric_limits<float>::infinity();
      ASSERT_EQ(out[v], expected) << "round " << round << " id " << v;
    }
    if (!changes_logits(params) && excluded.empty()) {
      EXPECT_EQ(out, raw);
    }
  }
}

TEST(LogitProcessors, IdsOutsideTheVocabularyAreRefused) {
  const std::vector<float> raw(10);
  std::vector<float> out;
  SamplingParams params;
  params.logit_bias = {{10, 1.0}};
  const Status biased = process_logits(raw, params, {}, {}, out);
  EXPECT_EQ(biased.code(), Code::invalid_argument);
  EXPECT_EQ(biased.message(), "logit_bias: id 10 is not below the vocabulary size 10");
  EXPECT_FALSE(process_logits(raw, {}, {}, std::vector<int32_t>{-1}, out).ok());
}

TEST(LogitProcessors, KnowWhetherTheyChangeAnything) {
  EXPECT_FALSE(changes_logits({}));
  SamplingParams params;
  params.repetition_penalty = 1.1;
  EXPECT_TRUE(changes_logits(params));
  params = {};
  params.logit_bias = {{1, 0.0}};
  EXPECT_TRUE(changes_logits(params));
}

}  // namespace
}  // namespace deepinfer
