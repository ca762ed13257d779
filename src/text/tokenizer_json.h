// Strict reader of tokenizer.json: its settings, vocabulary, merges and added tokens.
//
// Accepted are exactly the settings of the DeepSeek-V4 family: byte-level BPE without normalizer, the three Split
// regexes, no template. Any other value, any unknown or repeated field, a vocabulary with doubled or missing ids, and
// merges that do not fit it are errors that name the field. `merges` may be strings ("a b") or pairs (["a", "b"]).
// Threading: pure. Errors: invalid_argument, or unsupported for a well-formed setting that is not ours; messages begin
// with `where`. Source: golden/tokenizer/pretokenizer.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "text/bpe.h"

namespace deepinfer {

struct AddedToken {
  int32_t id = 0;
  std::string content;
  bool normalized = false;  // matched in the second pass
  bool special = false;     // left out by decode(.., skip_special)
};

struct TokenizerSpec {
  std::vector<std::string> tokens;  // bytes of each id of the vocabulary; empty where the id is an added token
  std::vector<Merge> merges;        // by rank
  std::vector<AddedToken> added;    // in the order of the file
};

Result<TokenizerSpec> read_tokenizer_json(std::string_view json, std::string_view where);

}  // namespace deepinfer
