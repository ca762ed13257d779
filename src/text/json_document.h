// The JSON part of reading tokenizer.json: one pass that keeps the two large parts (model.vocab, model.merges) as plain
// lists and everything else as a document; repeated fields, deep nesting and entries of the wrong type are errors that
// name the field.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace deepinfer {

struct TokenizerDocument {
  nlohmann::json rest;  // without model.vocab and model.merges
  bool has_vocab = false, has_merges = false;
  std::vector<std::pair<std::string, int64_t>> vocab;  // in the order of the file; strings may repeat
  std::vector<std::pair<std::string, std::string>> merges;
};

Result<TokenizerDocument> parse_tokenizer_document(std::string_view json, std::string_view where);

// How messages quote a string of a file: escaped, and cut when it is long.
std::string json_quote(std::string_view text);

}  // namespace deepinfer
