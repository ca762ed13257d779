#include "deepinfer/tokenizer.h"

#include <algorithm>
#include <unordered_map>

#include "base/file.h"
#include "base/status.h"
#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_json.h"
#include "text/unicode.h"

namespace deepinfer {
namespace {

constexpr size_t kLargestFile = size_t{1} << 28;

// How messages show a stretch of a text.
std::string excerpt(std::string_view text) {
  std::string shown;
  append_repaired(text.substr(0, 60), shown);
  return text.size() > 60 ? shown + "..." : shown;
}

}  // namespace

struct Tokenizer::Impl {
  explicit Impl(TokenizerSpec&& spec);

  void encode_plain(std::string_view text, Bpe::Scratch& scratch, std::vector<int32_t>& out) const;
  bool encode_added(std::string_view text, std::vector<int32_t>& out) const;
  Status check_id(int32_t id, size_t place) const;
  bool known(int32_t id) const { return id >= 0 && static_cast<size_t>(id) < flags.size(); }
  std::string_view token(int32_t id) const {
    return std::string_view(bytes).substr(offsets[id], offsets[id + 1] - offsets[id]);
  }

  enum Flag : uint8_t { kAdded = 1, kSpecial = 2 };

  std::string bytes;            // of all ids, end to end, added tokens as spelled
  std::vector<size_t> offsets;  // vocab_size + 1
  std::vector<uint8_t> flags;   // by id
  std::unordered_map<std::string, int32_t> added;
  AddedTokenMatcher first_pass, second_pass;  // normalized = false, true
  Bpe bpe;
};

Tokenizer::Impl::Impl(TokenizerSpec&& spec) : bpe(spec.tokens, std::move(spec.merges)) {
  std::vector<std::string>& tokens = spec.tokens;
  flags.resize(tokens.size());
  for (const AddedToken& token : spec.added) {
    tokens[token.id] = token.content;
    flags[token.id] = token.special ? kAdded | kSpecial : kAdded;
    added.emplace(token.content, token.id);
    (token.normalized ? second_pass : first_pass).add(token.content, token.id);
  }
  offsets.push_back(0);
  for (const std::string& token : tokens) {
    bytes += token;
    offsets.push_back(bytes.size());
  }
}

void Tokenizer::Impl::encode_plain(std::string_view text, Bpe::Scratch& scratch, std::vector<int32_t>& out) const {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
    bpe.encode(text.substr(begin, end - begin), scratch, out);
    begin = end;
  }
}

// A text that is nothing but added tokens; false, with `out` as it was, if it is not.
bool Tokenizer::Impl::encode_added(std::string_view text, std::vector<int32_t>& out) const {
  const size_t before = out.size();
  for (size_t begin = 0; begin < text.size();) {
    auto match = first_pass.at(text, begin);
    if (match.id < 0) match = second_pass.at(text, begin);
    if (match.id < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(match.id);
    begin = match.end;
  }
  return true;
}

Status Tokenizer::Impl::check_id(int32_t id, size_t place) const {
  if (known(id)) return {};
  return invalid("token id {} (number {} of the list) is outside the vocabulary, accepted: 0 to {}", id, place,
                 flags.size() - 1);
}

Result<Tokenizer> Tokenizer::open(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string json, read_file(path, kLargestFile));
  return from_json(json, path);
}

Result<Tokenizer> Tokenizer::from_json(std::string_view json, std::string_view where) {
  DI_ASSIGN_OR_RETURN(TokenizerSpec spec, read_tokenizer_json(json, where));
  return Tokenizer(std::make_shared<const Impl>(std::move(spec)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<int32_t> out;
  Bpe::Scratch scratch;
  out.reserve(text.size() / 4 + 1);
  // Two passes: tokens of the second are only looked for between those of the first.
  for (size_t begin = 0; begin < text.size();) {
    const auto first = impl_->first_pass.find(text, begin);
    const std::string_view rest = text.substr(0, first.begin);
    while (begin < first.begin) {
      const auto second = impl_->second_pass.find(rest, begin);
      impl_->encode_plain(text.substr(begin, second.begin - begin), scratch, out);
      if (second.id >= 0) out.push_back(second.id);
      begin = second.end;
    }
    if (first.id >= 0) out.push_back(first.id);
    begin = first.end;
  }
  return out;
}

std::vector<int32_t> Tokenizer::encode_plain(std::string_view text) const {
  std::vector<int32_t> out;
  Bpe::Scratch scratch;
  out.reserve(text.size() / 4 + 1);
  impl_->encode_plain(text, scratch, out);
  return out;
}

Result<std::vector<int32_t>> Tokenizer::encode_ranges(std::string_view text, std::span<const ByteRange> special) const {
  std::vector<int32_t> out;
  Bpe::Scratch scratch;
  out.reserve(text.size() / 4 + special.size());
  size_t begin = 0;
  for (size_t i = 0; i < special.size(); ++i) {
    const ByteRange range = special[i];
    if (range.begin < begin || range.end <= range.begin || range.end > text.size()) {
      return invalid("special range {} is [{}, {}), accepted: ascending, not empty, apart, within [{}, {})", i,
                     range.begin, range.end, begin, text.size());
    }
    impl_->encode_plain(text.substr(begin, range.begin - begin), scratch, out);
    const std::string_view content = text.substr(range.begin, range.end - range.begin);
    if (!impl_->encode_added(content, out)) {
      return invalid("special range {} [{}, {}) holds \"{}\", accepted: added tokens", i, range.begin, range.end,
                     excerpt(content));
    }
    begin = range.end;
  }
  impl_->encode_plain(text.substr(begin), scratch, out);
  return out;
}

Result<std::string> Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string raw;
  for (size_t i = 0; i < ids.size(); ++i) {
    DI_RETURN_IF_ERROR(impl_->check_id(ids[i], i));
    if (!skip_special || (impl_->flags[ids[i]] & Impl::kSpecial) == 0) raw += impl_->token(ids[i]);
  }
  std::string out;
  out.reserve(raw.size());
  append_repaired(raw, out);
  return out;
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  return impl_->known(id) ? impl_->token(id) : std::string_view();
}

std::string Tokenizer::token_string(int32_t id) const {
  if (!impl_->known(id)) return {};
  const std::string_view bytes = impl_->token(id);
  if (is_added(id)) return std::string(bytes);
  std::string out;
  for (const char byte : bytes) append_utf8(byte_level_char(static_cast<uint8_t>(byte)), out);
  return out;
}

std::optional<int32_t> Tokenizer::token_id(std::string_view token_string) const {
  if (const auto at = impl_->added.find(std::string(token_string)); at != impl_->added.end()) return at->second;
  std::string bytes;
  if (token_string.empty() || !byte_level_bytes(token_string, bytes)) return std::nullopt;
  const int32_t id = impl_->bpe.find(bytes);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

int32_t Tokenizer::vocab_size() const { return static_cast<int32_t>(impl_->flags.size()); }

bool Tokenizer::is_added(int32_t id) const { return impl_->known(id) && (impl_->flags[id] & Impl::kAdded) != 0; }

bool Tokenizer::is_special(int32_t id) const { return impl_->known(id) && (impl_->flags[id] & Impl::kSpecial) != 0; }

std::vector<size_t> Tokenizer::pieces(std::string_view text) const {
  std::vector<size_t> lengths;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = piece_end(text, begin);
    lengths.push_back(end - begin);
    begin = end;
  }
  return lengths;
}

StreamDecoder::StreamDecoder(Tokenizer tokenizer, bool skip_special)
    : tokenizer_(std::move(tokenizer)), skip_special_(skip_special) {}

Result<std::string> StreamDecoder::push(int32_t id) {
  const std::string_view bytes = tokenizer_.token_bytes(id);
  if (bytes.empty()) {
    return invalid("token id {} is outside the vocabulary, accepted: 0 to {}", id, tokenizer_.vocab_size() - 1);
  }
  if (skip_special_ && tokenizer_.is_special(id)) return std::string();
  held_ += bytes;
  // A truncated character can only stand at the end, and its lead is one of the last three bytes. ED with any
  // continuation is held too: half of them begin a surrogate, which is broken already, but then the next byte is as
  // well, and one rule is simpler.
  size_t whole = held_.size();
  for (size_t back = 1; back <= 3 && back <= held_.size(); ++back) {
    const size_t at = held_.size() - back;
    const auto lead = static_cast<unsigned char>(held_[at]);
    if ((lead & 0xC0) == 0x80) continue;
    if (decode_utf8(held_.data() + at, back).state == Utf8::truncated || (lead == 0xED && back == 2)) whole = at;
    break;
  }
  std::string out;
  append_repaired(std::string_view(held_).substr(0, whole), out);
  held_.erase(0, whole);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out;
  append_repaired(held_, out);
  held_.clear();
  return out;
}

}  // namespace deepinfer
