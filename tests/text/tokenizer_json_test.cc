// Every way in which a tokenizer.json can be refused, each with the field that its message names.
#include <gtest/gtest.h>

#include <functional>

#include "deepinfer/tokenizer.h"
#include "small_tokenizer.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;
using testing_text::small_tokenizer;

std::string message_of(const std::string& json) {
  const auto tokenizer = Tokenizer::from_json(json, "file.json");
  return tokenizer.ok() ? "accepted" : tokenizer.status().message();
}

TEST(TokenizerJson, AcceptsBothFormsOfMergesAndAbsentOptionalSettings) {
  Json json = small_tokenizer();
  const auto pairs = Tokenizer::from_json(json.dump(), "file.json");
  ASSERT_TRUE(pairs.ok()) << pairs.status().message();
  for (Json& merge : json["model"]["merges"]) merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  for (const char* field : {"truncation", "padding", "normalizer", "post_processor"}) json.erase(field);
  for (const char* field : {"dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                            "byte_fallback", "ignore_merges"}) {
    json["model"].erase(field);
  }
  const auto strings = Tokenizer::from_json(json.dump(), "file.json");
  ASSERT_TRUE(strings.ok()) << strings.status().message();
  const std::string text = "the aaaaaaa  the<user>1234";
  EXPECT_EQ(pairs->encode(text), strings->encode(text));
  EXPECT_EQ(pairs->vocab_size(), 267);
}

struct Refusal {
  const char* name;
  std::function<void(Json&)> change;
  const char* message;  // a part of it
};

TEST(TokenizerJson, RefusesSettingsByTheirField) {
  const std::vector<Refusal> refusals = {
      {"version", [](Json& j) { j["version"] = "2.0"; }, "file.json: version is \"2.0\", accepted: \"1.0\""},
      {"no version", [](Json& j) { j.erase("version"); }, "version is missing"},
      {"unknown field", [](Json& j) { j["flavour"] = 3; }, "flavour = 3: there is no such setting"},
      {"unknown empty field", [](Json& j) { j["flavour"] = Json::object(); }, "flavour = {}: there is no such setting"},
      {"truncation",
       [](Json& j) {
         j["truncation"] = {{"max_length", 512}};
       },
       "truncation.max_length = 512"},
      {"normalizer",
       [](Json& j) {
         j["normalizer"] = {{"type", "NFC"}};
       },
       "normalizer.type is \"NFC\", accepted: \"Sequence\""},
      {"normalizer list",
       [](Json& j) {
         j["normalizer"]["normalizers"].push_back({{"type", "NFC"}});
       },
       "normalizer.normalizers[0].type = \"NFC\""},
      {"normalizer without list", [](Json& j) { j["normalizer"].erase("normalizers"); },
       "normalizer.normalizers is missing"},
      {"empty normalizer", [](Json& j) { j["normalizer"] = Json::object(); }, "normalizer.type is missing"},
      {"no pre-tokenizer", [](Json& j) { j["pre_tokenizer"] = nullptr; },
       "pre_tokenizer is null, accepted: an object with its fields"},
      {"other regex", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\p{N}{1,4}"; },
       "pre_tokenizer.pretokenizers[0].pattern.Regex is \"\\\\p{N}{1,4}\""},
      {"string pattern",
       [](Json& j) {
         j["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", "x"}};
       },
       "pre_tokenizer.pretokenizers[0].pattern.String = \"x\""},
      {"behaviour", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][1]["behavior"] = "Removed"; },
       "pre_tokenizer.pretokenizers[1].behavior is \"Removed\", accepted: \"Isolated\""},
      {"inverted", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][2]["invert"] = true; },
       "pre_tokenizer.pretokenizers[2].invert is true, accepted: false"},
      {"prefix space", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][3]["add_prefix_space"] = true; },
       "pre_tokenizer.pretokenizers[3].add_prefix_space is true, accepted: false"},
      {"byte-level regex", [](Json& j) { j["pre_tokenizer"]["pretokenizers"][3]["use_regex"] = true; },
       "pre_tokenizer.pretokenizers[3].use_regex is true"},
      {"one more step",
       [](Json& j) {
         j["pre_tokenizer"]["pretokenizers"].push_back({{"type", "Digits"}});
       },
       "pre_tokenizer.pretokenizers[4].type = \"Digits\""},
      {"one step less", [](Json& j) { j["pre_tokenizer"]["pretokenizers"].erase(3); },
       "pre_tokenizer.pretokenizers[3].type is missing"},
      {"template",
       [](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"}};
       },
       "post_processor.type is \"TemplateProcessing\""},
      {"decoder", [](Json& j) { j["decoder"]["type"] = "WordPiece"; }, "decoder.type is \"WordPiece\""},
      {"no decoder", [](Json& j) { j.erase("decoder"); }, "decoder.type is missing"},
      {"model type", [](Json& j) { j["model"]["type"] = "Unigram"; }, "model.type is \"Unigram\", accepted: \"BPE\""},
      {"dropout", [](Json& j) { j["model"]["dropout"] = 0.1; }, "model.dropout is 0.1, accepted: null"},
      {"unk", [](Json& j) { j["model"]["unk_token"] = "<unk>"; }, "model.unk_token is \"<unk>\""},
      {"prefix", [](Json& j) { j["model"]["continuing_subword_prefix"] = "##"; }, "model.continuing_subword_prefix"},
      {"suffix", [](Json& j) { j["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix"},
      {"byte fallback", [](Json& j) { j["model"]["byte_fallback"] = true; },
       "model.byte_fallback is true, accepted: false"},
      {"ignore merges", [](Json& j) { j["model"]["ignore_merges"] = true; },
       "model.ignore_merges is true, accepted: false"},
      {"added not a list", [](Json& j) { j["added_tokens"] = 1; }, "added_tokens is 1, accepted: an array"},
      {"no added tokens", [](Json& j) { j.erase("added_tokens"); }, "added_tokens is missing"},
      {"added token not an object", [](Json& j) { j["added_tokens"][1] = "x"; },
       "added_tokens[1] is \"x\", accepted: an object"},
      {"lstrip", [](Json& j) { j["added_tokens"][1]["lstrip"] = true; },
       "added_tokens[1].lstrip is true, accepted: false"},
      {"rstrip", [](Json& j) { j["added_tokens"][0]["rstrip"] = true; }, "added_tokens[0].rstrip is true"},
      {"single word", [](Json& j) { j["added_tokens"][0]["single_word"] = true; },
       "added_tokens[0].single_word is true"},
      {"no special flag", [](Json& j) { j["added_tokens"][0].erase("special"); }, "added_tokens[0].special is missing"},
      {"special flag", [](Json& j) { j["added_tokens"][0]["special"] = 1; }, "added_tokens[0].special is 1"},
      {"unknown flag", [](Json& j) { j["added_tokens"][0]["colour"] = "red"; }, "added_tokens[0].colour = \"red\""},
      {"empty content", [](Json& j) { j["added_tokens"][1]["content"] = ""; }, "added_tokens[1].content is \"\""},
      {"long content", [](Json& j) { j["added_tokens"][1]["content"] = std::string(1025, 'x'); },
       "accepted: a string of 1 to 1024 bytes"},
      {"negative added id", [](Json& j) { j["added_tokens"][1]["id"] = -1; },
       "added_tokens[1].id is -1, accepted: 0 to 2097151"},
      {"large added id", [](Json& j) { j["added_tokens"][1]["id"] = 1u << 31; }, "added_tokens[1].id is 2147483648"},
      {"fractional added id", [](Json& j) { j["added_tokens"][1]["id"] = 1.5; }, "added_tokens[1].id is 1.5"},
  };
  for (const Refusal& r : refusals) {
    Json json = small_tokenizer();
    r.change(json);
    EXPECT_NE(message_of(json.dump()).find(r.message), std::string::npos) << r.name << ": " << message_of(json.dump());
  }
}

TEST(TokenizerJson, RefusesVocabulariesAndMergesThatDoNotFit) {
  const std::vector<Refusal> refusals = {
      {"no vocab", [](Json& j) { j["model"].erase("vocab"); }, "model.vocab is missing"},
      {"vocab is a list", [](Json& j) { j["model"]["vocab"] = {1}; }, "model.vocab"},
      {"no merges", [](Json& j) { j["model"].erase("merges"); }, "model.merges is missing"},
      {"merges is an object",
       [](Json& j) {
         j["model"]["merges"] = {{"a", 1}};
       },
       "model.merges.a = 1"},
      {"id is a text", [](Json& j) { j["model"]["vocab"]["the"] = "7"; },
       "model.vocab[\"the\"] is \"7\", accepted: an id"},
      {"id is a list", [](Json& j) { j["model"]["vocab"]["the"] = {7}; },
       "model.vocab[\"the\"] is an array, accepted: an id"},
      {"id is a fraction", [](Json& j) { j["model"]["vocab"]["the"] = 7.5; },
       "model.vocab[\"the\"] is 7.5, accepted: an id"},
      {"negative id", [](Json& j) { j["model"]["vocab"]["the"] = -3; },
       "model.vocab[\"the\"] is -3, accepted: 0 to 2097151"},
      {"large id", [](Json& j) { j["model"]["vocab"]["the"] = 1ull << 63; }, "model.vocab[\"the\"] is"},
      {"doubled id", [](Json& j) { j["model"]["vocab"]["the"] = 5; }, "model.vocab gives id 5 to"},
      {"gap", [](Json& j) { j["model"]["vocab"]["the"] = 300; }, "no token has id 258, accepted: every id from 0 on"},
      {"empty token", [](Json& j) { j["model"]["vocab"][""] = 267; }, "model.vocab has an empty token, id 267"},
      {"outside the alphabet", [](Json& j) { j["model"]["vocab"]["a b"] = 267; },
       "model.vocab[\"a b\"] (id 267) has a character outside the byte-level alphabet and is no added token"},
      {"no byte", [](Json& j) { j["model"]["vocab"].erase("Ġ"), j["model"]["vocab"]["xyz"] = 33; },
       "model.vocab has no token for the byte 0x20, \"Ġ\""},
      {"added id of another", [](Json& j) { j["added_tokens"][1]["id"] = 34; },
       "added_tokens[1].id is 34, which model.vocab gives to \"!\""},
      {"added id not the vocabulary's", [](Json& j) { j["added_tokens"][0]["id"] = 267; },
       "added_tokens[0].id is 267, but model.vocab[\"<s>\"] is 0"},
      {"added twice", [](Json& j) { j["added_tokens"][1]["content"] = "<user>>"; },
       "added_tokens[2].content \"<user>>\" stands there twice"},
      {"added id twice", [](Json& j) { j["added_tokens"][1]["id"] = 265; },
       "added_tokens[2].id 265 stands there twice"},
      {"unknown part",
       [](Json& j) {
         j["model"]["merges"][0] = {"zq", "h"};
       },
       "model.merges[0]: \"zq\" is not in model.vocab"},
      {"unknown result",
       [](Json& j) {
         j["model"]["merges"][1] = {"q", "q"};
       },
       "model.merges[1]: \"qq\" is not in model.vocab"},
      {"doubled merge",
       [](Json& j) {
         j["model"]["merges"][4] = {"t", "h"};
       },
       "model.merges[4]: \"t\" and \"h\" stand there twice"},
      {"added token merged",
       [](Json& j) {
         j["model"]["merges"][4] = {"<s>", "t"};
       },
       "model.merges[4]: \"<s>\" is an added token, which merging cannot give"},
      {"string without space", [](Json& j) { j["model"]["merges"][2] = "the"; },
       "model.merges[2] is \"the\", accepted: two tokens with one space between them"},
      {"string with two spaces", [](Json& j) { j["model"]["merges"][2] = "t h e"; }, "model.merges[2] is \"t h e\""},
      {"three parts",
       [](Json& j) {
         j["model"]["merges"][2] = {"t", "h", "e"};
       },
       "model.merges[2] has more than two parts"},
      {"one part", [](Json& j) { j["model"]["merges"][2] = {"t"}; }, "model.merges[2] has 1 parts, accepted: 2"},
      {"number in a merge",
       [](Json& j) {
         j["model"]["merges"][2] = {"t", 4};
       },
       "model.merges[2] holds 4, accepted: two strings"},
      {"list in a merge",
       [](Json& j) {
         j["model"]["merges"][2] = {"t", Json::array()};
       },
       "model.merges[2] holds an array"},
      {"null merge", [](Json& j) { j["model"]["merges"][2] = nullptr; }, "model.merges[2] holds null"},
  };
  for (const Refusal& r : refusals) {
    Json json = small_tokenizer();
    r.change(json);
    EXPECT_NE(message_of(json.dump()).find(r.message), std::string::npos) << r.name << ": " << message_of(json.dump());
  }
}

TEST(TokenizerJson, RefusesWhatIsNotJsonOrRepeatsFields) {
  const std::string good = small_tokenizer().dump();
  const auto replaced = [&good](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_NE(message_of("").find("file.json: not valid JSON at byte"), std::string::npos);
  EXPECT_NE(message_of("[]").find("file.json: is [], accepted: an object"), std::string::npos);
  EXPECT_NE(message_of("7").find("is 7, accepted: an object"), std::string::npos);
  EXPECT_NE(message_of(good + "x").find("not valid JSON at byte"), std::string::npos);
  EXPECT_NE(message_of(replaced("\"truncation\"", "\"padding\"")).find("field \"padding\" stands twice in the file"),
            std::string::npos);
  EXPECT_NE(message_of(replaced("\"unk_token\"", "\"dropout\"")).find("field \"dropout\" stands twice in model"),
            std::string::npos);
  EXPECT_NE(
      message_of(replaced("\"model\":{", "\"model\":{\"vocab\":{},")).find("field \"vocab\" stands twice in model"),
      std::string::npos);
  EXPECT_NE(message_of(replaced("\"the\":", "\"th\":")).find("model.vocab has \"th\" twice"), std::string::npos);
  EXPECT_NE(message_of("{\"a\":" + std::string(10000, '[')).find("nested deeper than 16 levels, in a[0]"),
            std::string::npos);
  EXPECT_NE(message_of("{\"version\": 1e999}").find("not valid JSON"), std::string::npos);
  EXPECT_NE(message_of("{\"version\": \"\xFF\"}").find("not valid JSON"), std::string::npos);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_NE(message_of(good.substr(0, size)).find("not valid JSON at byte"), std::string::npos) << size;
  }
}

TEST(TokenizerJson, OpenNamesThePath) {
  const auto missing = Tokenizer::open("/no/such/tokenizer.json");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.status().code(), Code::not_found);
  EXPECT_NE(missing.status().message().find("/no/such/tokenizer.json"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer
