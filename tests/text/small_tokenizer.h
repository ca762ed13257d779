// A tokenizer.json small enough to be changed field by field: the 256 bytes, a handful of merges, four added tokens.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/unicode.h"

namespace deepinfer::testing_text {

inline nlohmann::json small_tokenizer() {
  using Json = nlohmann::json;
  const auto split = [](const char* regex) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const Json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}};
  Json vocab = {{"<s>", 0}};
  int id = 1;
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(byte_level_char(static_cast<uint8_t>(byte)), text);
    vocab[text] = id++;
  }
  Json merges = Json::array();
  for (const auto& [left, right] : std::vector<std::pair<std::string, std::string>>{
           {"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"a", "a"}, {"aa", "aa"}, {"Ġ", "Ġ"}, {"aa", "a"}}) {
    merges.push_back({left, right});
    vocab[left + right] = id++;
  }
  const auto added = [](int token_id, const char* content, bool normalized, bool special) {
    return Json{{"id", token_id},  {"content", content},       {"single_word", false}, {"lstrip", false},
                {"rstrip", false}, {"normalized", normalized}, {"special", special}};
  };
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens",
           {added(0, "<s>", false, true), added(id, "<user>", true, false), added(id + 1, "<user>>", true, false),
            added(id + 2, "é!", false, false)}},
          {"normalizer", {{"type", "Sequence"}, {"normalizers", Json::array()}}},
          {"pre_tokenizer",
           {{"type", "Sequence"},
            {"pretokenizers",
             {split("\\p{N}{1,3}"), split("[一-龥\u3040-ゟ゠-ヿ]+"),
              split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
                    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"),
              level}}}},
          {"post_processor", level},
          {"decoder", level},
          {"model",
           {{"type", "BPE"},
            {"dropout", nullptr},
            {"unk_token", nullptr},
            {"continuing_subword_prefix", nullptr},
            {"end_of_word_suffix", nullptr},
            {"fuse_unk", false},
            {"byte_fallback", false},
            {"ignore_merges", false},
            {"vocab", vocab},
            {"merges", merges}}}};
}

}  // namespace deepinfer::testing_text
