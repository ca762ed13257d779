// Character classes against two outside sources: the installed utf8proc with the golden list of what its Unicode
// version lacks, and golden/tokenizer's ranges themselves.
#include "text/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"

namespace deepinfer {
namespace {

constexpr uint32_t kCategories = kLetter | kMark | kNumber | kPunctuation | kSymbol;
const std::map<char, uint32_t> kClassOf = {
    {'L', kLetter}, {'M', kMark}, {'N', kNumber}, {'P', kPunctuation}, {'S', kSymbol}};

TEST(Unicode, ClassesAreThoseOfUnicode16) {
  const std::string path = DI_SOURCE_DIR "/tests/golden/tokenizer/unicode-delta.json";
  const auto delta = nlohmann::json::parse(read_file(path).value());
  std::map<uint32_t, uint32_t> added;  // code points that utf8proc does not know yet
  for (const auto& [letter, bits] : kClassOf) {
    for (const auto& range : delta[std::string(1, letter)]) {
      for (uint32_t c = range[0]; c <= range[1]; ++c) added[c] = bits;
    }
  }
  EXPECT_EQ(added.size(), 5812u);
  for (const auto& [c, bits] : added) ASSERT_EQ(CharTable::instance()[c] & kCategories, bits) << std::hex << c;
  for (const auto& range : delta["assigned_only_in_17"]) {
    for (uint32_t c = range[0]; c <= range[1]; ++c)
      ASSERT_EQ(CharTable::instance()[c] & kCategories, 0u) << std::hex << c;
  }
  if (std::string(utf8proc_unicode_version()) != delta["utf8proc_unicode"].get<std::string>()) {
    GTEST_SKIP() << "the installed utf8proc has Unicode " << utf8proc_unicode_version()
                 << ", the golden list goes with " << delta["utf8proc_unicode"];
  }
  for (uint32_t c = 0; c < 0x110000; ++c) {
    const auto known = kClassOf.find(utf8proc_category_string(static_cast<int32_t>(c))[0]);
    const auto later = added.find(c);
    const uint32_t expected = known != kClassOf.end() ? known->second : later != added.end() ? later->second : 0;
    const bool surrogate = c >= 0xD800 && c <= 0xDFFF;
    ASSERT_EQ(CharTable::instance()[c] & kCategories, surrogate ? 0 : expected) << std::hex << c;
  }
}

TEST(Unicode, OtherClasses) {
  const CharTable& table = CharTable::instance();
  int white = 0, cjk = 0, ascii_signs = 0, ascii_letters = 0;
  for (uint32_t c = 0; c < 0x110000; ++c) {
    white += (table[c] & kWhite) != 0;
    cjk += (table[c] & kCjk) != 0;
    ascii_signs += (table[c] & kAsciiPunctuation) != 0;
    ascii_letters += (table[c] & kAsciiLetter) != 0;
    if (c < 128) {
      ASSERT_EQ(table[c], table.ascii(static_cast<unsigned char>(c)));
    }
  }
  EXPECT_EQ(white, 25);
  EXPECT_EQ(cjk, 0x9FA5 - 0x4E00 + 1 + 0x30FF - 0x3040 + 1);
  EXPECT_EQ(ascii_signs, 32);
  EXPECT_EQ(ascii_letters, 52);
  for (const uint32_t c : {0x1Cu, 0x1Fu, 0x180Eu, 0x200Bu, 0xFEFFu}) EXPECT_EQ(table[c] & kWhite, 0u) << std::hex << c;
  EXPECT_EQ(table[0x110000], 0u);
  EXPECT_EQ(table[UINT32_MAX], 0u);
}

TEST(Unicode, EveryCodePointGoesToUtf8AndBack) {
  for (uint32_t c = 0; c < 0x110000; ++c) {
    std::string text;
    append_utf8(c, text);
    const Utf8Char back = decode_utf8(text.data(), text.size());
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_EQ(back.state, Utf8::broken);
      continue;
    }
    ASSERT_EQ(back.state, Utf8::ok) << std::hex << c;
    ASSERT_EQ(back.code_point, c);
    ASSERT_EQ(back.length, text.size());
    uint8_t encoded[4];
    ASSERT_EQ(utf8proc_encode_char(static_cast<int32_t>(c), encoded), static_cast<int>(text.size()));
    ASSERT_EQ(text, std::string(reinterpret_cast<char*>(encoded), text.size()));
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(decode_utf8(text.data(), cut).state, Utf8::truncated);
      ASSERT_EQ(decode_utf8(text.data(), cut).length, cut);
    }
  }
}

TEST(Unicode, ByteLevelAlphabetIsOneToOne) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) {
    const uint32_t c = byte_level_char(static_cast<uint8_t>(byte));
    EXPECT_EQ(byte_level_byte(c), byte);
    append_utf8(c, all);
  }
  EXPECT_EQ(byte_level_char(' '), 0x120u);
  EXPECT_EQ(byte_level_char(0), 0x100u);
  EXPECT_EQ(byte_level_char(173), 0x143u);
  EXPECT_EQ(byte_level_byte(' '), -1);
  EXPECT_EQ(byte_level_byte(0x144), -1);
  std::string bytes;
  EXPECT_TRUE(byte_level_bytes(all, bytes));
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(static_cast<unsigned char>(bytes[static_cast<size_t>(byte)]), byte);
  EXPECT_FALSE(byte_level_bytes("a b", bytes));
  EXPECT_FALSE(byte_level_bytes("\xC4", bytes));
}

}  // namespace
}  // namespace deepinfer
