// Byte-pair merging against the rule written down literally, on random vocabularies: short and long pieces, ordered and
// unordered merges, runs and noise.
#include "text/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace deepinfer {
namespace {

struct Model {
  std::vector<std::string> tokens;
  std::vector<Merge> merges;
};

// `letters` letters merge into random longer tokens; with `shuffle` a merge may come before those that make its parts.
Model random_model(std::mt19937& random, int letters, size_t merges, bool shuffle) {
  Model model;
  for (int byte = 0; byte < 256; ++byte) model.tokens.emplace_back(1, static_cast<char>(byte));
  std::map<std::string, int32_t> ids;
  std::vector<int32_t> known;
  for (int i = 0; i < letters; ++i) known.push_back('a' + i);
  std::set<std::pair<int32_t, int32_t>> pairs;
  while (model.merges.size() < merges) {
    const int32_t left = known[random() % known.size()], right = known[random() % known.size()];
    const std::string bytes = model.tokens[left] + model.tokens[right];
    if (bytes.size() > 40 || !pairs.insert({left, right}).second) continue;
    const auto [at, fresh] = ids.emplace(bytes, static_cast<int32_t>(model.tokens.size()));
    if (fresh) {
      model.tokens.push_back(bytes);
      known.push_back(at->second);
    }
    model.merges.push_back({left, right, at->second});
  }
  if (shuffle) std::shuffle(model.merges.begin(), model.merges.end(), random);
  return model;
}

std::vector<int32_t> by_the_rule(const Model& model, const std::string& piece) {
  std::map<std::pair<int32_t, int32_t>, size_t> ranks;
  for (size_t r = 0; r < model.merges.size(); ++r) ranks[{model.merges[r].left, model.merges[r].right}] = r;
  std::vector<int32_t> symbols;
  for (const char c : piece) symbols.push_back(static_cast<unsigned char>(c));
  for (;;) {
    size_t best_rank = SIZE_MAX, best = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto at = ranks.find({symbols[i], symbols[i + 1]});
      if (at != ranks.end() && at->second < best_rank) {
        best_rank = at->second;
        best = i;
      }
    }
    if (best_rank == SIZE_MAX) return symbols;
    symbols[best] = model.merges[best_rank].result;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

TEST(Bpe, EqualsTheRuleOnRandomVocabularies) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 120; ++round) {
    const int letters = 1 + static_cast<int>(random() % 4);
    const Model model = random_model(random, letters, letters == 1 ? 12 : 10 + random() % 60, round % 2 == 1);
    const Bpe bpe(model.tokens, model.merges);
    Bpe::Scratch scratch;
    for (int text = 0; text < 30; ++text) {
      // Short pieces, pieces around the bound between the two ways, long ones that are swept.
      const size_t size = text < 12 ? random() % 20 : text < 24 ? 55 + random() % 20 : 257 + random() % 300;
      std::string piece;
      const size_t unit = 1 + random() % 3;  // every third piece is a run of a short pattern with an odd end
      while (piece.size() < size) {
        piece += text % 3 == 0 && piece.size() >= unit && piece.size() + 5 < size
                     ? piece[piece.size() - unit]
                     : static_cast<char>('a' + random() % letters);
      }
      const std::vector<int32_t> expected = by_the_rule(model, piece);
      for (int again = 0; again < 2; ++again) {  // the second time, what the first found out about whole tokens is used
        std::vector<int32_t> found;
        bpe.encode(piece, scratch, found);
        ASSERT_EQ(found, expected) << "round " << round << ", piece " << piece;
      }
    }
    for (const std::string& token : model.tokens) {
      std::vector<int32_t> found;
      bpe.encode(token, scratch, found);
      ASSERT_EQ(found, by_the_rule(model, token)) << token;
    }
  }
}

TEST(Bpe, FindsTokensByTheirBytes) {
  std::mt19937 random(7);
  const Model model = random_model(random, 3, 60, false);
  const Bpe bpe(model.tokens, model.merges);
  for (size_t id = 0; id < model.tokens.size(); ++id) EXPECT_EQ(bpe.find(model.tokens[id]), static_cast<int32_t>(id));
  EXPECT_EQ(bpe.find(""), -1);
  EXPECT_EQ(bpe.find("no such token"), -1);
}

}  // namespace
}  // namespace deepinfer
