// The cut into pieces on the borders that the golden page names; the golden cases and sweeps hold it to the oracle.
#include "text/pre_tokenizer.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace deepinfer {
namespace {

std::vector<std::string> cut(std::string_view text) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
    pieces.emplace_back(text.substr(begin, end - begin));
    begin = end;
  }
  return pieces;
}

using Pieces = std::vector<std::string>;

TEST(PreTokenizer, Digits) {
  EXPECT_EQ(cut("1234567"), (Pieces{"123", "456", "7"}));
  EXPECT_EQ(cut("1٢3a4"), (Pieces{"1٢3", "a", "4"}));
  EXPECT_EQ(cut(" 12"), (Pieces{" ", "12"}));
}

TEST(PreTokenizer, CjkRunsAreCutByTheThirdRegexToo) {
  EXPECT_EQ(cut("abc中文def"), (Pieces{"abc", "中文", "def"}));
  EXPECT_EQ(cut("カ・キ"), (Pieces{"カ", "・", "キ"}));
  EXPECT_EQ(cut("か\u3099き"), (Pieces{"か\u3099き"}));
  EXPECT_EQ(cut("・\n"), (Pieces{"・", "\n"}));
  EXPECT_EQ(cut(" 中"), (Pieces{" ", "中"}));
  EXPECT_EQ(cut("\u3040の"), (Pieces{"\u3040の"}));
  EXPECT_EQ(cut("の\u3040"), (Pieces{"の", "\u3040"}));
}

TEST(PreTokenizer, WordsAndSigns) {
  EXPECT_EQ(cut("Hello, world's end"), (Pieces{"Hello", ",", " world", "'s", " end"}));
  EXPECT_EQ(cut(".café"), (Pieces{".caf", "é"}));
  EXPECT_EQ(cut("…café"), (Pieces{"…", "café"}));
  EXPECT_EQ(cut("\tword"), (Pieces{"\tword"}));
  EXPECT_EQ(cut("\nword"), (Pieces{"\n", "word"}));
  EXPECT_EQ(cut(" ...\r\n\nx"), (Pieces{" ...\r\n\n", "x"}));
  EXPECT_EQ(cut("\t..."), (Pieces{"\t", "..."}));
  EXPECT_EQ(cut("e\u0301\u0301x"), (Pieces{"e\u0301\u0301x"}));
}

TEST(PreTokenizer, Blanks) {
  EXPECT_EQ(cut("   x"), (Pieces{"  ", " x"}));
  EXPECT_EQ(cut("   1"), (Pieces{"   ", "1"}));
  EXPECT_EQ(cut("   "), (Pieces{"   "}));
  EXPECT_EQ(cut("   ."), (Pieces{"  ", " ."}));
  EXPECT_EQ(cut(" \n \n  x"), (Pieces{" \n \n", " ", " x"}));
  EXPECT_EQ(cut("\u3000\u3000x"), (Pieces{"\u3000", "\u3000x"}));
  EXPECT_EQ(cut("a  \u0001"), (Pieces{"a", " ", " ", "\u0001"}));
}

TEST(PreTokenizer, GapsAndBrokenBytes) {
  EXPECT_EQ(cut("\u0001\u0002\u0003"), (Pieces{"\u0001\u0002\u0003"}));
  EXPECT_EQ(cut("\u0001\u0002a"), (Pieces{"\u0001", "\u0002a"}));
  EXPECT_EQ(cut("\xFF\xFE."), (Pieces{"\xFF\xFE", "."}));
  EXPECT_EQ(cut("\xFF\xE4\xB8x"), (Pieces{"\xFF", "\xE4\xB8x"}));
  EXPECT_EQ(cut("\xE4\xB8"), (Pieces{"\xE4\xB8"}));
}

}  // namespace
}  // namespace deepinfer
