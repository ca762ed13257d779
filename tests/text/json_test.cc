#include "text/json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

namespace deepinfer {
namespace {

std::string printed(std::string_view text) {
  const auto value = JsonValue::parse(text);
  return value.ok() ? value->dump() : "error: " + value.status().message();
}

TEST(Json, PrintsWhatPromptsNeed) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"b":1,"a":[true,false,null]})", R"({"b": 1, "a": [true, false, null]})"},
      {R"(  { } )", "{}"},
      {R"([ ])", "[]"},
      {R"({"a":1,"b":2,"a":3})", R"({"a": 3, "b": 2})"},
      {R"("\u00e9\ud83d\ude00\/\u0041")", "\"é😀/A\""},
      {R"("\"\\\b\f\n\r\t\u0000\u001f\u007f")", "\"\\\"\\\\\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\""},
      {"-0", "-0.0"},
      {"1.50", "1.5"},
      {"1e5", "100000.0"},
      {"1e15", "1000000000000000.0"},
      {"1e16", "1e+16"},
      {"0.0001", "0.0001"},
      {"0.00001", "1e-05"},
      {"1.25e-7", "1.25e-07"},
      {"-1.5e300", "-1.5e+300"},
      {"5e-324", "5e-324"},
      {"1e-400", "0.0"},
      {"-1e-99999999999999999999", "-0.0"},
      {"0e99999999999999999999", "0.0"},
      {"0.0000e5", "0.0"},
      {"18446744073709551615", "18446744073709551615"},
      {"18446744073709551616", "1.8446744073709552e+19"},
      {"-9223372036854775808", "-9223372036854775808"},
      {"-9223372036854775809", "-9.223372036854776e+18"},
      {"123456789012345678901234567890", "1.2345678901234568e+29"},
  };
  for (const auto& [in, out] : cases) EXPECT_EQ(printed(in), out) << in;
}

TEST(Json, RefusalsNameThePlace) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "JSON: byte 0: the text ends where a value is expected"},
      {"{\"a\":1", "JSON: byte 6: the text ends where ',' or '}' is expected"},
      {"[1,]", "JSON: byte 3: ']' where a value is expected"},
      {"{\"a\":1,}", "JSON: byte 7: '}' where a key is expected"},
      {"01", "JSON: byte 1: '1' where the end of the document is expected"},
      {"{'a':1}", "JSON: byte 1: ''' where a key is expected"},
      {"NaN", "JSON: byte 0: 'N' where a value is expected"},
      {"1e400", "JSON: byte 0: the number does not fit a double"},
      {"[0, -1e99999999999999999999]", "JSON: byte 4: the number does not fit a double"},
      {"\"\\ud800\"", "JSON: byte 1: a \\u escape of half a surrogate pair is no character"},
      {"\"\\udc00\"", "JSON: byte 1: a \\u escape of half a surrogate pair is no character"},
      {"\"\\ud800\\u0041\"", "JSON: byte 1: a \\u escape of half a surrogate pair is no character"},
      {"\"\\u12g4\"", "JSON: byte 5: 'g' where a hexadecimal digit is expected"},
      {"\"\\x\"", "JSON: byte 2: 'x' where an escape is expected"},
      {"\"a\nb\"", "JSON: byte 2: 0x0a where a character of a string or '\"' is expected"},
      {"\"\xff\"", "JSON: byte 1: not valid UTF-8 (0xff)"},
      {"\"\xed\xa0\x80\"", "JSON: byte 1: not valid UTF-8 (0xed)"},
      {"\"\xc0\xaf\"", "JSON: byte 1: not valid UTF-8 (0xc0)"},
      {"\xef\xbb\xbf{}", "JSON: byte 0: 0xef where a value is expected"},
  };
  for (const auto& [in, out] : cases) EXPECT_EQ(printed(in), std::string("error: ") + out) << in;
}

TEST(Json, NestsTo127) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(printed(nested(127)), nested(127));
  EXPECT_EQ(printed(nested(128)), "error: JSON: byte 127: nested deeper than 127");
  EXPECT_FALSE(JsonValue::parse(std::string(10'000'000, '[')).ok());
}

TEST(Json, ManyRepeatedKeysTakeNoSquaredTime) {
  std::string text = "{";
  for (int i = 0; i < 200000; ++i) text += fmt::format("\"k{}\":{},", i % 100000, i);
  text.back() = '}';
  const auto value = JsonValue::parse(text);
  ASSERT_TRUE(value.ok());
  ASSERT_EQ(value->members().size(), 100000u);
  EXPECT_EQ(value->members()[7].key, "k7");
  EXPECT_EQ(value->members()[7].value.as_int64(), 100007);
}

// nlohmann/json as an independent reader: the same documents are accepted and mean the same, apart from the stated differences.
TEST(Json, AgreesWithAnotherReader) {
  std::mt19937_64 random(1);
  const std::string_view pieces[] = {"{",   "}",    "[",    "]", ",",  ":",  "\"a\"", "\"b\\n\"", "1", "-2.5",
                                     "1e3", "true", "null", " ", "\"", "\\", "0",     ".",        "e"};
  int accepted = 0;
  for (int i = 0; i < 100000; ++i) {
    std::string text;
    for (size_t n = 1 + random() % 9; n > 0; --n) text += pieces[random() % std::size(pieces)];
    const auto ours = JsonValue::parse(text);
    const auto theirs = nlohmann::ordered_json::parse(text, nullptr, false);
    ASSERT_EQ(ours.ok(), !theirs.is_discarded()) << text;
    if (!ours.ok()) continue;
    ++accepted;
    ASSERT_EQ(nlohmann::json::parse(ours->dump()), nlohmann::json::parse(text)) << text;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(Json, DoublesReadBackFromWhatIsPrinted) {
  std::mt19937_64 random(9);
  for (int i = 0; i < 50000; ++i) {
    const auto value = std::bit_cast<double>(random());
    if (!std::isfinite(value)) continue;
    std::string text;
    append_json_number(text, value);
    ASSERT_EQ(JsonValue::parse(text)->number(), value) << text;
    ASSERT_EQ(std::strtod(text.c_str(), nullptr), value) << text;
  }
}

TEST(Json, IntegersSayWhetherTheyFit) {
  EXPECT_EQ(JsonValue::parse("-9223372036854775808")->as_int64(), INT64_MIN);
  EXPECT_EQ(JsonValue::parse("9223372036854775807")->as_int64(), INT64_MAX);
  EXPECT_EQ(JsonValue::parse("9223372036854775808")->as_int64(), std::nullopt);
  EXPECT_EQ(JsonValue::parse("9223372036854775808")->as_uint64(), uint64_t{1} << 63);
  EXPECT_EQ(JsonValue::parse("-1")->as_uint64(), std::nullopt);
  EXPECT_EQ(JsonValue::parse("1.0")->as_int64(), std::nullopt);
  EXPECT_EQ(JsonValue::parse("\"1\"")->as_int64(), std::nullopt);
}

TEST(Json, InvalidUtf8IsFoundWhereItIs) {
  EXPECT_EQ(find_invalid_utf8("aé日😀"), std::string_view::npos);
  EXPECT_EQ(find_invalid_utf8("a\x80"), 1u);
  EXPECT_EQ(find_invalid_utf8("\xe2\x82"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xf4\x90\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xf0\x80\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("\xe0\x80\x80"), 0u);
  EXPECT_EQ(find_invalid_utf8("ab\xf5\x80\x80\x80"), 2u);
}

}  // namespace
}  // namespace deepinfer
