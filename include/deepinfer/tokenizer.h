// Tokenizer: text to token ids and back, from a `tokenizer.json` with DeepSeek's byte-level BPE.
//
// Text     any bytes. UTF-8 is expected; where it is broken nothing is lost: each maximal broken part is treated as one
// unassigned
//          character, and the bytes of the resulting tokens, put together, are the text's. (decode() shows broken UTF-8
//          as U+FFFD.)
// Ids      0 .. vocab_size() - 1, all of them in use.
// Threading a Tokenizer is constant and cheap to copy (copies share one vocabulary); any number of threads may use it
// at once.
//          A StreamDecoder belongs to one stream.
// Errors   no exception, no byte of a file or text that crashes. A tokenizer.json with a setting that is not exactly
// the supported
//          one is refused by the name of its field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "deepinfer/byte_range.h"
#include "deepinfer/status.h"

namespace deepinfer {

class Tokenizer {
 public:
  // Reads a tokenizer.json. Messages begin with the path.
  static Result<Tokenizer> open(const std::string& path);

  // The same from its content. Messages begin with `where`.
  static Result<Tokenizer> from_json(std::string_view json, std::string_view where);

  // Ids of a text in which added tokens (`<｜User｜>`, `<think>`, ...) are recognised wherever they are spelled: for
  // text that the program wrote itself, never for a user's.
  std::vector<int32_t> encode(std::string_view text) const;

  // Ids of pure text: nothing is recognised, so a user who spells a control token gets its letters.
  std::vector<int32_t> encode_plain(std::string_view text) const;

  // Ids of a rendered prompt: the bytes in `special` are added tokens (each range one of them, or several end to end),
  // all else is pure text, each stretch between two ranges cut and encoded on its own. Ranges are ascending, not empty
  // and do not overlap; otherwise, and if a range holds anything but added tokens, invalid_argument names the range and
  // what it holds.
  Result<std::vector<int32_t>> encode_ranges(std::string_view text, std::span<const ByteRange> special) const;

  // The text of ids: their bytes put together, then every maximal broken part of UTF-8 replaced by U+FFFD. With
  // `skip_special` added tokens flagged special are left out. An id outside the vocabulary is invalid_argument and
  // named.
  Result<std::string> decode(std::span<const int32_t> ids, bool skip_special = false) const;

  // The bytes of a token (of an added token: its spelling), possibly a part of a character. Empty if there is no such
  // id. Lives as long as any copy of this tokenizer.
  std::string_view token_bytes(int32_t id) const;

  // The token as tokenizer.json spells it, in the byte-level alphabet ("Ġthe"). Empty if there is no such id.
  std::string token_string(int32_t id) const;

  // The id of a token as tokenizer.json spells it, added tokens included.
  std::optional<int32_t> token_id(std::string_view token_string) const;

  // Number of ids, added tokens included.
  int32_t vocab_size() const;

  // Whether an id is an added token; whether one that decode(.., skip_special) leaves out.
  bool is_added(int32_t id) const;
  bool is_special(int32_t id) const;

  // Lengths in bytes of the pieces that pure text is cut into before merging.
  std::vector<size_t> pieces(std::string_view text) const;

 private:
  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

// Decodes ids as they come. What push() and finish() return, put together, is what decode() returns for all ids at
// once; each part is whole characters: the beginning of a character is held back until the rest comes or cannot come.
class StreamDecoder {
 public:
  explicit StreamDecoder(Tokenizer tokenizer, bool skip_special = false);

  // The text that is certain after this id. An id outside the vocabulary is invalid_argument, and the stream is as
  // before.
  Result<std::string> push(int32_t id);

  // What is still held back, as U+FFFD. The decoder is then as new.
  std::string finish();

 private:
  Tokenizer tokenizer_;
  bool skip_special_;
  std::string held_;  // at most three bytes: a character's beginning
};

}  // namespace deepinfer
