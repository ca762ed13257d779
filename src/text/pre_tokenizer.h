// The pre-tokenizer: cuts plain text into the pieces that byte-pair merging never crosses.
//
// The same cut as the three regexes of tokenizer.json (digits in threes; runs of the CJK ranges; words, punctuation,
// blanks), written by hand, in one pass and without backtracking: time is linear in the text, whatever it holds. Input
// may be any bytes. A maximal broken part of UTF-8 counts as one unassigned character. Threading: pure. Source:
// golden/tokenizer/pretokenizer.md, rules A to E; the regexes themselves stand in tokenizer_json.cc.
#pragma once

#include <cstddef>
#include <string_view>

namespace deepinfer {

// The end of the piece that begins at `begin` < text.size(), where `begin` is 0 or the end of a piece.
size_t piece_end(std::string_view text, size_t begin);

}  // namespace deepinfer
