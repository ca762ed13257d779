// Properties of the whole tokenizer, on the bundled one and on a small one: bytes survive, streams equal decode under
// every cut, control tokens come only from where they are asked for.
#include "deepinfer/tokenizer.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "small_tokenizer.h"

namespace deepinfer {
namespace {

Tokenizer bundled() { return Tokenizer::open(DI_SOURCE_DIR "/models/deepseek-v4.1-tiny/tokenizer.json").value(); }
Tokenizer small() { return Tokenizer::from_json(testing_text::small_tokenizer().dump(), "small").value(); }

std::string bytes_of(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::string bytes;
  for (const int32_t id : ids) bytes += tokenizer.token_bytes(id);
  return bytes;
}

std::string streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special = false) {
  StreamDecoder stream(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string part = stream.push(id).value();
    std::string repaired;
    append_repaired(part, repaired);
    EXPECT_EQ(part, repaired) << "half a character was emitted";
    text += part;
  }
  return text + stream.finish();
}

// Characters of all planes and classes, and every added token.
std::string random_text(std::mt19937& random, const Tokenizer& tokenizer) {
  std::string text;
  const size_t parts = random() % 20;
  for (size_t i = 0; i < parts; ++i) {
    uint32_t c = 0;
    switch (random() % 8) {
      case 0:
        c = random() % 128;
        break;
      case 1:
        c = random() % 0x800;
        break;
      case 2:
        c = 0x3000 + random() % 0x200;
        break;
      case 3:
        c = 0x4E00 + random() % 0x51FF;
        break;
      case 4:
        c = random() % 0x110000;
        break;
      case 5:
        c = 0x1F300 + random() % 0x400;
        break;
      case 6:
        text += std::string(random() % 40, " \n\ta1.!"[random() % 7]);
        continue;
      default:
        text += tokenizer.token_bytes(static_cast<int32_t>(random() % tokenizer.vocab_size()));
        continue;
    }
    if (c >= 0xD800 && c <= 0xDFFF) c = 'x';
    append_utf8(c, text);
  }
  return text;
}

TEST(Tokenizer, TextAndBytesSurvive) {
  const Tokenizer tokenizer = bundled();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    if (round % 2 == 0) {
      text = random_text(random, tokenizer);
    } else {
      const size_t size = random() % 30;  // any bytes, with leads and continuations more often than chance has them
      while (text.size() < size)
        text += static_cast<char>(random() % 3 == 0 ? random() % 256
                                                    : "\xE4\xB8\xAD\xF0\x9F\x98\x80\xC3\xED a"[random() % 11]);
    }
    std::string repaired;
    append_repaired(text, repaired);
    for (const auto& ids : {tokenizer.encode(text), tokenizer.encode_plain(text)}) {
      ASSERT_EQ(bytes_of(tokenizer, ids), text);
      ASSERT_EQ(tokenizer.decode(ids).value(), repaired);
      ASSERT_EQ(streamed(tokenizer, ids), repaired);
    }
    for (const int32_t id : tokenizer.encode_plain(text)) ASSERT_FALSE(tokenizer.is_added(id)) << text;
    size_t sum = 0;
    for (const size_t piece : tokenizer.pieces(text)) {
      ASSERT_GT(piece, 0u);
      sum += piece;
    }
    ASSERT_EQ(sum, text.size());
  }
}

TEST(Tokenizer, StreamEqualsDecodeOnRandomIds) {
  const Tokenizer tokenizer = bundled();
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20000; ++round) {
    std::vector<int32_t> ids(random() % 12);
    // Single bytes (ids 3 to 258) often, so that characters are cut, broken and mended in every way.
    for (int32_t& id : ids)
      id = static_cast<int32_t>(random() % 4 == 0 ? random() % tokenizer.vocab_size() : 3 + random() % 256);
    for (const bool skip : {false, true})
      ASSERT_EQ(streamed(tokenizer, ids, skip), tokenizer.decode(ids, skip).value());
  }
}

TEST(Tokenizer, StreamEqualsDecodeForEveryByteTriple) {
  const Tokenizer tokenizer = small();  // ids 1 to 256: bytes in order
  const std::string edges = "A\x7F\x80\x8F\x90\x9F\xA0\xBF\xC1\xC2\xDF\xE0\xE4\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  std::vector<int32_t> letters;
  for (const char c : edges) letters.push_back(1 + static_cast<unsigned char>(c));
  for (const int32_t a : letters) {
    for (const int32_t b : letters) {
      for (const int32_t c : letters) {
        for (const int32_t d : letters) {
          const std::vector<int32_t> ids = {a, b, c, d};
          ASSERT_EQ(streamed(tokenizer, ids), tokenizer.decode(ids).value()) << a << " " << b << " " << c << " " << d;
        }
      }
    }
  }
}

TEST(Tokenizer, BrokenUtf8ShowsOneReplacementForEachMaximalPart) {
  const Tokenizer tokenizer = small();
  const auto shown = [&tokenizer](std::string_view bytes) {
    return tokenizer.decode(tokenizer.encode_plain(bytes)).value();
  };
  EXPECT_EQ(shown("\x80"), "\uFFFD");
  EXPECT_EQ(shown("\xE4\xB8"
                  "A"),
            "\uFFFDA");
  EXPECT_EQ(shown("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(shown("\xC0\x80"), "\uFFFD\uFFFD");
  EXPECT_EQ(shown("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(shown("\xF1\x80\x80\xE1\x80\xC2"
                  "b"),
            "\uFFFD\uFFFD\uFFFDb");
  // A broken part is one unassigned character: it stands in front of a word like a control character does.
  EXPECT_EQ(tokenizer.pieces("\xE4\xB8ZZ"), tokenizer.pieces("\u0080ZZ"));
}

TEST(Tokenizer, AddedTokensAreLeftmostLongestInTwoPasses) {
  const Tokenizer tokenizer = small();
  const int32_t user = tokenizer.token_id("<user>").value(), longer = tokenizer.token_id("<user>>").value();
  const int32_t first = tokenizer.token_id("é!").value(), bos = tokenizer.token_id("<s>").value();
  EXPECT_EQ(tokenizer.encode("<user>"), std::vector<int32_t>{user});
  EXPECT_EQ(tokenizer.encode("<user>>"), std::vector<int32_t>{longer});
  EXPECT_EQ(tokenizer.encode("<s>é!<user><user>>"), (std::vector<int32_t>{bos, first, user, longer}));
  // A token of the first pass wins over one of the second that begins further left: none here overlaps, so spell the
  // parts.
  const std::vector<int32_t> parts = tokenizer.encode("<user<user>");
  EXPECT_EQ(parts.back(), user);
  EXPECT_EQ(bytes_of(tokenizer, parts), "<user<user>");
  EXPECT_EQ(tokenizer.token_bytes(first), "é!");
}

TEST(Tokenizer, PassesDecideOverlaps) {
  nlohmann::json json = testing_text::small_tokenizer();
  json["added_tokens"][1]["content"] = "<user>é";  // second pass; overlaps "é!" of the first
  const Tokenizer tokenizer = Tokenizer::from_json(json.dump(), "small").value();
  const std::vector<int32_t> ids = tokenizer.encode("<user>é!");
  EXPECT_EQ(ids.back(), tokenizer.token_id("é!").value());
  EXPECT_EQ(ids.size(), 7u);  // < u s e r > and the token
}

TEST(Tokenizer, SpecialLiteralsInUserTextStayText) {
  const Tokenizer tokenizer = bundled();
  const int32_t user = tokenizer.token_id("<｜User｜>").value(),
                assistant = tokenizer.token_id("<｜Assistant｜>").value();
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (!tokenizer.is_added(id)) continue;
    const std::string spelled = std::string("a ") + std::string(tokenizer.token_bytes(id)) + " b";
    const std::string prompt = "<｜User｜>" + spelled + "<｜Assistant｜>";
    const ByteRange ranges[] = {{0, 12}, {12 + spelled.size(), prompt.size()}};
    const auto ids = tokenizer.encode_ranges(prompt, ranges);
    ASSERT_TRUE(ids.ok()) << ids.status().message();
    std::vector<int32_t> expected = tokenizer.encode_plain(spelled);
    for (const int32_t part : expected) EXPECT_FALSE(tokenizer.is_added(part)) << spelled;
    expected.insert(expected.begin(), user);
    expected.push_back(assistant);
    EXPECT_EQ(*ids, expected) << prompt;
  }
}

TEST(Tokenizer, RangesCutTheTextAroundThem) {
  const Tokenizer tokenizer = bundled();
  const std::string text = "12<think>34</think><｜User｜>  x";
  const ByteRange apart[] = {{2, 9}, {11, 19}, {19, 31}};
  const ByteRange joined[] = {{2, 9}, {11, 31}};
  const auto ids = tokenizer.encode_ranges(text, apart);
  ASSERT_TRUE(ids.ok()) << ids.status().message();
  EXPECT_EQ(*ids, tokenizer.encode(text));
  EXPECT_EQ(*ids, tokenizer.encode_ranges(text, joined).value());
  EXPECT_EQ(tokenizer.encode_ranges(text, {}).value(), tokenizer.encode_plain(text));

  const auto refused = [&](std::vector<ByteRange> ranges) {
    return tokenizer.encode_ranges(text, ranges).status().message();
  };
  EXPECT_NE(refused({{2, 8}}).find("special range 0 [2, 8) holds \"<think\", accepted: added tokens"),
            std::string::npos);
  EXPECT_NE(refused({{0, 9}}).find("holds \"12<think>\""), std::string::npos);
  EXPECT_NE(refused({{2, 9}, {8, 19}}).find("special range 1 is [8, 19), accepted: ascending"), std::string::npos);
  EXPECT_NE(refused({{9, 9}}).find("special range 0 is [9, 9)"), std::string::npos);
  EXPECT_NE(refused({{19, 2}}).find("special range 0 is [19, 2)"), std::string::npos);
  EXPECT_NE(refused({{19, text.size() + 1}}).find("within [0, 34)"), std::string::npos);
}

TEST(Tokenizer, IdsAndStringsOfTokens) {
  const Tokenizer tokenizer = bundled();
  EXPECT_EQ(tokenizer.vocab_size(), 8192);
  int added = 0, special = 0;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    ASSERT_FALSE(tokenizer.token_bytes(id).empty());
    ASSERT_EQ(tokenizer.token_id(tokenizer.token_string(id)), id);
    added += tokenizer.is_added(id);
    special += tokenizer.is_special(id);
  }
  EXPECT_EQ(added, 67);
  EXPECT_EQ(special, 50);
  EXPECT_EQ(tokenizer.token_string(tokenizer.encode_plain(" the")[0]), "Ġthe");
  EXPECT_EQ(tokenizer.token_id("<｜begin▁of▁sentence｜>"), 0);
  EXPECT_EQ(tokenizer.token_id(""), std::nullopt);
  EXPECT_EQ(tokenizer.token_id("not a token"), std::nullopt);
  EXPECT_EQ(tokenizer.token_id("\xFF"), std::nullopt);
  for (const int32_t id : {-1, 8192, INT32_MAX, INT32_MIN}) {
    EXPECT_TRUE(tokenizer.token_bytes(id).empty());
    EXPECT_TRUE(tokenizer.token_string(id).empty());
    EXPECT_FALSE(tokenizer.is_added(id));
    EXPECT_FALSE(tokenizer.is_special(id));
  }
}

TEST(Tokenizer, IdsOutsideTheVocabularyAreNamed) {
  const Tokenizer tokenizer = bundled();
  const std::vector<int32_t> ids = {5, 8192};
  const auto decoded = tokenizer.decode(ids);
  ASSERT_FALSE(decoded.ok());
  EXPECT_EQ(decoded.status().code(), Code::invalid_argument);
  EXPECT_EQ(decoded.status().message(),
            "token id 8192 (number 1 of the list) is outside the vocabulary, accepted: 0 to 8191");
  StreamDecoder stream(tokenizer);
  const std::vector<int32_t> cut = tokenizer.encode_plain("\xE4\xB8");
  for (const int32_t id : cut) EXPECT_EQ(stream.push(id).value(), "");
  EXPECT_EQ(stream.push(-1).status().message(), "token id -1 is outside the vocabulary, accepted: 0 to 8191");
  EXPECT_EQ(stream.push(tokenizer.encode_plain("\xAD")[0]).value(),
            "中");  // the stream went on as if nothing had happened
  EXPECT_EQ(stream.finish(), "");
}

// For the thread sanitizer above all: what the first use of a token finds out is shared between threads.
TEST(Tokenizer, ThreadsShareOne) {
  const Tokenizer tokenizer = bundled();
  std::mt19937 random(5);
  std::string text;
  for (int i = 0; i < 300; ++i) text += random_text(random, tokenizer);
  const std::vector<int32_t> expected = bundled().encode(text);
  std::vector<std::vector<int32_t>> found(4);
  std::vector<std::thread> threads;
  for (auto& ids : found) threads.emplace_back([&ids, copy = tokenizer, &text] { ids = copy.encode(text); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& ids : found) EXPECT_EQ(ids, expected);
}

// These hang, rather than fail, if any step is more than n log n; bench_tokenizer has the seconds.
TEST(Tokenizer, WorstTextsEnd) {
  const Tokenizer tokenizer = bundled();
  const auto repeated = [](std::string_view unit, size_t bytes) {
    std::string text;
    while (text.size() < bytes) text += unit;
    return text;
  };
  const size_t mega = 1'000'000;
  for (const std::string& text :
       {std::string(mega, 'a'), std::string(20 * mega, ' '), std::string(20 * mega, ' ') + "x", repeated("\n ", mega),
        repeated("😀", mega), repeated("👩🏿\u200D💻", mega), repeated("中", mega), repeated("のカ゛ー", mega),
        std::string(mega, '!'), repeated("!?#", mega), repeated("abcdefghijk", mega), std::string(mega, '7'),
        repeated("\u0301", mega), std::string(mega, '\0'), std::string(mega, '\xFF'), repeated("\xF0\x9F\x98", mega),
        repeated("<｜User", mega), repeated("<｜User｜>", mega)}) {
    ASSERT_EQ(bytes_of(tokenizer, tokenizer.encode(text)), text);
  }
}

}  // namespace
}  // namespace deepinfer
