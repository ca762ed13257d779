// The compressed token map of Engram: which class each token id is hashed as.
//
// Rule     text = the id's bytes as text. If they are not UTF-8 or hold U+FFFD, the key is the token as tokenizer.json
// spells it;
//          else the text normalised: NFKC, NFD, all marks (Mn, Mc, Me) dropped, lower case (not case folding), runs of
//          [ \t\r\n] as one space, stripped of white space at both ends unless it is one space; the text itself if that
//          is empty. Equal keys are one class; classes are numbered in order of first appearance.
// Result   vocab_size entries, each 0 .. classes - 1; the number of classes is the largest entry + 1.
// Threading: pure. Errors: invalid_argument if the model's vocab_size is not the tokenizer's.
// Source: spec 8.1, golden/tokenizer/pretokenizer.md (the recipe with utf8proc).
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "deepinfer/tokenizer.h"

namespace deepinfer {

Result<std::vector<int32_t>> engram_token_map(const Tokenizer& tokenizer, int64_t vocab_size);

}  // namespace deepinfer
