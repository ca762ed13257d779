// The rule of the compressed token map on tokens chosen for it; verify_tokenizer holds whole maps to golden ones.
#include "text/engram_map.h"

#include <gtest/gtest.h>

#include "small_tokenizer.h"

namespace deepinfer {
namespace {

TEST(EngramMap, EqualKeysAreOneClass) {
  nlohmann::json json = testing_text::small_tokenizer();
  auto& added = json["added_tokens"];
  int32_t id = 267;
  const auto add = [&](const std::string& content) {
    nlohmann::json token = added[1];
    token["id"] = id;
    token["content"] = content;
    added.push_back(token);
    return id++;
  };
  const int32_t upper = add("THE"), accent = add("T\u0301hé"), wide = add("ｔｈｅ"), blanks = add("  the\n"),
                inner = add("t he"), spaces = add(" \t "), mark = add("\u0301"), enclosing = add("the\u20DD"),
                eszett = add("aß"), ss = add("ass"), lower = add("x\uFFFD"), capital = add("X\uFFFD"),
                ligature = add("ﬁ"), fi = add("fi"), private_use = add("\uE000");
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "small").value();
  const auto map = engram_token_map(tokenizer, tokenizer.vocab_size()).value();
  ASSERT_EQ(map.size(), static_cast<size_t>(id));
  const auto of = [&](const char* token) { return map[static_cast<size_t>(tokenizer.token_id(token).value())]; };
  for (const int32_t same : {upper, accent, wide, blanks, enclosing}) EXPECT_EQ(map[same], of("the")) << same;
  EXPECT_EQ(of("Ġthe"), of("the"));
  EXPECT_NE(map[inner], of("the"));
  EXPECT_EQ(map[spaces], of("Ġ"));       // one space is a class of its own,
  EXPECT_EQ(map[private_use], of("Ġ"));  // which the stand-in character therefore joins
  EXPECT_EQ(of("ĠĠ"), of("Ġ"));
  EXPECT_NE(map[mark], of("Ġ"));    // nothing is left of a lone mark: it is its own key
  EXPECT_NE(map[eszett], map[ss]);  // lower case, not case folding
  EXPECT_EQ(map[ligature], map[fi]);
  EXPECT_EQ(of("A"), of("a"));
  EXPECT_NE(map[lower], map[capital]);  // with U+FFFD: keyed by the spelling
  EXPECT_NE(of("ĩ"), of("Ī"));          // single bytes that are no text: keyed by the token's spelling
  EXPECT_EQ(map[0], 0);
}

TEST(EngramMap, TheModelsVocabularyMustBeTheTokenizers) {
  const Tokenizer tokenizer = Tokenizer::from_json(testing_text::small_tokenizer().dump(), "small").value();
  const auto map = engram_token_map(tokenizer, 300);
  ASSERT_FALSE(map.ok());
  EXPECT_EQ(map.status().message(), "vocab_size is 300, but the tokenizer has 267 ids");
}

}  // namespace
}  // namespace deepinfer
