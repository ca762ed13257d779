#include "checkpoint/engram_constants.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "paths.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

uint64_t number(const Json& value) {
  return value.is_string() ? std::stoull(value.get<std::string>()) : value.get<uint64_t>();
}

std::vector<uint64_t> flat(const Json& value) {
  std::vector<uint64_t> out;
  if (!value.is_array()) return {number(value)};
  for (const Json& item : value) {
    for (const uint64_t x : flat(item)) out.push_back(x);
  }
  return out;
}

// Row numbers of the tokens, straight from spec 8.4.
std::vector<uint64_t> hash(const EngramConstants& c, int64_t heads, const std::vector<uint64_t>& classes,
                           size_t position, uint64_t pad) {
  std::vector<uint64_t> ids;
  const auto lookback = [&](size_t k) { return k <= position ? classes[position - k] : pad; };
  uint64_t r = lookback(0) * c.multipliers[0];
  for (size_t i = 1; i < c.multipliers.size(); ++i) {
    r ^= lookback(i) * c.multipliers[i];
    for (int64_t h = 0; h < heads; ++h) {
      const size_t column = (i - 1) * static_cast<size_t>(heads) + static_cast<size_t>(h);
      ids.push_back(r % c.primes[column] + c.offsets[column]);
    }
  }
  return ids;
}

TEST(EngramConstants, ReleasedValues) {
  const Json expected = Json::parse(read_file(golden("released/engram_constants.json")).value());
  const ModelConfig config = read_config(golden("released/config.json")).value();
  const auto constants = engram_constants(config);
  ASSERT_TRUE(constants.ok()) << constants.status().message();
  ASSERT_EQ(constants->size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const EngramConstants& found = (*constants)[i];
    const std::string layer = std::to_string(config.engram_layer_ids[i]);
    const Json& wanted = expected["layers"][layer];
    EXPECT_EQ(found.multipliers, flat(wanted["multipliers"]));
    EXPECT_EQ(found.primes, flat(wanted["primes"]));
    EXPECT_EQ(found.offsets, flat(wanted["offsets"]));
    EXPECT_EQ(found.rows, number(wanted["rows"]));
    const std::vector<uint64_t> classes = flat(expected["golden"]["compressed"]);
    for (size_t position = 0; position < 2; ++position) {
      EXPECT_EQ(hash(found, config.engram_n_heads, classes, position, number(expected["pad_id_compressed"])),
                flat(expected["golden"]["hash_ids"]["layer" + layer + "_pos" + std::to_string(position)]));
    }
  }
}

// Fault E19: nano's multipliers need 55 bits. A double holds 53, so a value that passed through one would differ.
TEST(EngramConstants, NanoMultipliersAreExactBeyondDoubles) {
  const auto constants = engram_constants(read_config(golden("nano/config.json")).value()).value();
  EXPECT_EQ(constants[0].multipliers,
            (std::vector<uint64_t>{25312092204715445u, 1598643339462077u, 11877719498229879u, 24438510811423417u}));
  EXPECT_EQ(constants[1].multipliers,
            (std::vector<uint64_t>{9092343702097867u, 26972591774836393u, 3593053192103867u, 23219549187966981u}));
  int beyond = 0;
  for (const EngramConstants& layer : constants) {
    for (const uint64_t multiplier : layer.multipliers) {
      EXPECT_EQ(multiplier % 2, 1u);
      beyond += static_cast<uint64_t>(static_cast<double>(multiplier)) != multiplier;
    }
  }
  EXPECT_GE(beyond, 4);  // the test can fail: these values do not survive a double
}

TEST(EngramConstants, EqualToTheGoldenIndexes) {
  DI_NEEDS_SHARED();
  for (const std::string model : {"nano", "odd", "wide"}) {
    const Json expected = Json::parse(read_file(shared("golden/" + model + "/index.json")).value())["engram"];
    const auto constants = engram_constants(read_config(golden(model + "/config.json")).value()).value();
    ASSERT_EQ(constants.size(), expected["multipliers"].size());
    for (size_t i = 0; i < constants.size(); ++i) {
      EXPECT_EQ(constants[i].multipliers, flat(expected["multipliers"][i])) << model;
      EXPECT_EQ(constants[i].primes, flat(expected["primes"][i])) << model;
      EXPECT_EQ(constants[i].offsets, flat(expected["offsets"][i])) << model;
      EXPECT_EQ(constants[i].rows, number(expected["rows"][i])) << model;
    }
  }
}

// numpy.random.default_rng(10007 * l).integers(0, max(1, (2**63 - 1) // classes // 2), size=4, dtype=int64) * 2 + 1, numpy 2.
TEST(EngramConstants, MultipliersOfOtherLayersAndSizes) {
  ModelConfig config;
  config.engram_max_ngram_size = 4;
  config.engram_compressed_vocab_size = 1;
  EXPECT_EQ(engram_multipliers(0, config), (std::vector<uint64_t>{5874934615388537135u, 2488343231644625807u,
                                                                  377914054924498011u, 152440531369162767u}));
  EXPECT_EQ(engram_multipliers(255, config), (std::vector<uint64_t>{4404733824791816291u, 4146200901960049201u,
                                                                    8286808914488448223u, 5162506130513655113u}));
  config.engram_compressed_vocab_size = int64_t{1} << 24;
  EXPECT_EQ(engram_multipliers(63, config),
            (std::vector<uint64_t>{161896248481u, 284333978837u, 154579642817u, 115926794223u}));
}

TEST(EngramConstants, RowsThatAreNotTheSumOfThePrimesAreRefused) {
  ModelConfig config = read_config(golden("nano/config.json")).value();
  config.engram_num_embeddings[1] += 1;
  const auto constants = engram_constants(config);
  ASSERT_FALSE(constants.ok());
  EXPECT_NE(constants.status().message().find("text_config.engram_num_embeddings[1]: found 1553, accepted: 1552"),
            std::string::npos)
      << constants.status().message();
}

// Against a sieve, from the smallest table to one beyond 2^16.
TEST(EngramConstants, PrimesAreTheNextOnes) {
  std::vector<bool> composite(200000);
  for (uint64_t i = 2; i * i < composite.size(); ++i) {
    for (uint64_t j = i * i; !composite[i] && j < composite.size(); j += i) composite[j] = true;
  }
  ModelConfig config;
  config.engram_layer_ids = {0, 5};
  config.engram_max_ngram_size = 4;
  config.engram_n_heads = 8;
  for (const int64_t start : {1, 2, 3, 4, 30, 1000, 65535, 100000}) {
    config.engram_vocab_size = start;
    uint64_t next = std::max<uint64_t>(2, static_cast<uint64_t>(start));
    for (const auto& layer : engram_primes(config)) {
      ASSERT_EQ(layer.size(), 24u);
      for (const uint64_t prime : layer) {
        while (composite[next]) ++next;
        ASSERT_EQ(prime, next++);
      }
    }
  }
  // Strong pseudoprimes to the first bases: 3215031751 (2, 3, 5, 7) must not appear among the primes.
  config.engram_vocab_size = 3215031751;
  config.engram_layer_ids = {0};
  EXPECT_GT(engram_primes(config)[0][0], 3215031751u);
}

}  // namespace
}  // namespace deepinfer
