#include "text/engram_map.h"

#include <utf8proc.h>

#include <string>
#include <unordered_map>

#include "text/unicode.h"

namespace deepinfer {
namespace {

constexpr uint32_t kLoneSpace = 0xE000;  // stands for a text that is one space while white space is stripped

bool is_blank(int32_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

bool is_white(int32_t c) { return (CharTable::instance()[static_cast<uint32_t>(c)] & kWhite) != 0; }

// The text's decomposition without marks, in lower case.
Result<std::vector<int32_t>> fold(std::string_view text) {
  constexpr auto kOptions =
      static_cast<utf8proc_option_t>(UTF8PROC_COMPAT | UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | UTF8PROC_STRIPMARK);
  std::vector<int32_t> chars(text.size() * 4);
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  for (;;) {
    const auto room = static_cast<utf8proc_ssize_t>(chars.size());
    const auto size =
        utf8proc_decompose(bytes, static_cast<utf8proc_ssize_t>(text.size()), chars.data(), room, kOptions);
    if (size < 0) return error(Code::internal, "utf8proc: {}", utf8proc_errmsg(size));
    chars.resize(static_cast<size_t>(size));
    if (size <= room) break;
  }
  for (int32_t& c : chars) c = utf8proc_tolower(c);
  return chars;
}

Result<std::string> normalise(std::string_view text) {
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> folded, fold(text));
  std::vector<int32_t> chars;
  for (size_t i = 0; i < folded.size(); ++i) {
    if (!is_blank(folded[i])) {
      chars.push_back(folded[i]);
    } else if (i == 0 || !is_blank(folded[i - 1])) {
      chars.push_back(' ');
    }
  }
  if (chars.size() == 1 && chars[0] == ' ') chars[0] = kLoneSpace;
  size_t begin = 0, end = chars.size();
  while (begin < end && is_white(chars[begin])) ++begin;
  while (begin < end && is_white(chars[end - 1])) --end;
  std::string out;
  for (size_t i = begin; i < end; ++i) append_utf8(chars[i] == kLoneSpace ? ' ' : static_cast<uint32_t>(chars[i]), out);
  return out;
}

}  // namespace

Result<std::vector<int32_t>> engram_token_map(const Tokenizer& tokenizer, int64_t vocab_size) {
  if (vocab_size != tokenizer.vocab_size()) {
    return invalid("vocab_size is {}, but the tokenizer has {} ids", vocab_size, tokenizer.vocab_size());
  }
  std::unordered_map<std::string, int32_t> classes;
  std::vector<int32_t> map;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string text;
    append_repaired(tokenizer.token_bytes(id), text);
    std::string key;
    if (text.find("\uFFFD") != text.npos) {
      key = tokenizer.token_string(id);
    } else {
      DI_ASSIGN_OR_RETURN(key, normalise(text));
      if (key.empty()) key = std::move(text);
    }
    map.push_back(classes.emplace(std::move(key), static_cast<int32_t>(classes.size())).first->second);
  }
  return map;
}

}  // namespace deepinfer
