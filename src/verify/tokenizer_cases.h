// The cases of golden/tokenizer as structs: what `cases-*.jsonl` holds, with repetitions written out.
//
// Formats  golden/tokenizer/README.md. A field that is missing, unknown or of the wrong kind is an error that names
// file, line and
//          field. Written out, a text or list may have at most kMaxExpanded bytes or numbers.
// Threading: pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace deepinfer {

struct TextCase {
  std::string text;
  std::vector<int64_t> ids, ids_plain, pieces;
  std::optional<std::string> decoded;  // where decoding does not give the text back
};

struct DecodeCase {
  std::vector<int32_t> ids;
  std::string bytes, decoded;
  std::optional<std::string> decoded_skip_special;  // where it differs from decoded
  std::vector<std::string> stream;                  // after each id, and at the end
};

struct TokenizerCase {
  std::string name;
  std::optional<TextCase> text;  // exactly one of the two
  std::optional<DecodeCase> decode;
};

inline constexpr size_t kMaxExpanded = size_t{1} << 26;

Result<std::vector<TokenizerCase>> read_tokenizer_cases(const std::string& path);

}  // namespace deepinfer
