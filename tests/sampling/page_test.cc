// The vectors of docs/sampling.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "sampling/sampler.h"

namespace deepinfer {
namespace {

TEST(SamplingPage, VectorsHold) {
  const auto page = read_file(DI_SOURCE_DIR "/docs/sampling.md");
  ASSERT_TRUE(page.ok()) << page.status().message();
  int noise = 0, choices = 0;
  for (size_t begin = 0, end = 0; begin < page->size(); begin = end + 1) {
    end = std::min(page->find('\n', begin), page->size());
    if ((*page)[begin] != '{') continue;
    const auto v = nlohmann::json::parse(page->substr(begin, end - begin));
    NoiseKey key;
    key.seed = v.value("seed", uint64_t{0});
    key.choice = v.value("choice", 0);
    key.position = v.value("position", int64_t{0});
    if (v.contains("word")) {
      const uint64_t word = random_word(row_stream(key), v["token"].get<uint64_t>());
      EXPECT_EQ(fmt::format("{:016x}", word), v["word"].get<std::string>());
      EXPECT_EQ(gumbel(word), std::strtod(v["gumbel"].get<std::string>().c_str(), nullptr));
      ++noise;
      continue;
    }
    std::vector<float> row;
    for (const auto& x : v["row"])
      row.push_back(x.is_null() ? -std::numeric_limits<float>::infinity() : x.get<float>());
    SamplingParams params;
    params.temperature = v.value("temperature", 1.0);
    params.top_k = v.value("top_k", 0);
    params.top_p = v.value("top_p", 1.0);
    params.min_p = v.value("min_p", 0.0);
    Scratch scratch;
    const auto sampled = sample(row, params, key, scratch);
    ASSERT_TRUE(sampled.ok()) << v;
    EXPECT_EQ(sampled->id, v["id"].get<int32_t>()) << v;
    EXPECT_EQ(sampled->logprob, std::strtof(v["logprob"].get<std::string>().c_str(), nullptr)) << v;
    ++choices;
  }
  EXPECT_EQ(noise, 6);
  EXPECT_EQ(choices, 11);
}

}  // namespace
}  // namespace deepinfer
