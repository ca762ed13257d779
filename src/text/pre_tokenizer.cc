#include "text/pre_tokenizer.h"

#include "text/unicode.h"

namespace deepinfer {
namespace {

constexpr uint32_t kWord = kLetter | kMark;
constexpr uint32_t kSign = kPunctuation | kSymbol;
constexpr uint32_t kOutside = 1u << 16;  // the class of what lies beyond the text or beyond the stretch

struct Char {
  uint32_t bits;
  size_t end;
};

// A stretch is what the first two regexes leave: it ends at the end of the text, before a number, and where CJK begins
// or ends. The third regex sees one stretch at a time, so what lies beyond looks to it like the end of the text.
class Stretch {
 public:
  Stretch(std::string_view text, const CharTable& table) : text_(text), table_(table) {}

  // Says what kind of stretch the piece at hand is in, by its first character.
  void set_kind(uint32_t first_bits) { kind_ = first_bits & kCjk; }

  // Any character, by its own class.
  Char read(size_t i) const {
    if (i >= text_.size()) return {kOutside, i};
    const auto byte = static_cast<unsigned char>(text_[i]);
    if (byte < 0x80) return {table_.ascii(byte), i + 1};
    const Utf8Char c = decode_utf8(text_.data() + i, text_.size() - i);
    return {c.state == Utf8::ok ? table_[c.code_point] : 0u, i + c.length};
  }

  // A character of this stretch; kOutside beyond it.
  Char at(size_t i) const {
    const Char c = read(i);
    return (c.bits & (kNumber | kOutside)) != 0 || (c.bits & kCjk) != kind_ ? Char{kOutside, i} : c;
  }

  // The end of the run of characters with one of the classes in `mask`.
  size_t run(size_t i, uint32_t mask) const {
    for (;;) {
      const Char c = at(i);
      if ((c.bits & mask) == 0) return i;
      i = c.end;
    }
  }

 private:
  std::string_view text_;
  const CharTable& table_;
  uint32_t kind_ = 0;
};

size_t digits_end(const Stretch& text, size_t end_of_first) {
  size_t end = end_of_first;
  for (int more = 0; more < 2; ++more) {
    const Char c = text.read(end);
    if ((c.bits & kNumber) == 0) break;
    end = c.end;
  }
  return end;
}

// Rules D and E: a run of blanks, from its first character on.
size_t blanks_end(const Stretch& text, size_t begin) {
  size_t end = begin, last_begin = begin, after_newline = begin;
  for (;;) {
    const Char c = text.at(end);
    if ((c.bits & kWhite) == 0) {
      if (after_newline > begin) return after_newline;
      // The last blank goes with what follows it, if anything does and the run has others.
      return (c.bits & kOutside) != 0 || last_begin == begin ? end : last_begin;
    }
    last_begin = end;
    end = c.end;
    if ((c.bits & kNewline) != 0) after_newline = end;
  }
}

// Characters that no rule takes (control, format, private, unassigned), up to one that a rule takes.
size_t gap_end(const Stretch& text, size_t end) {
  for (;;) {
    const Char c = text.at(end);
    if ((c.bits & (kOutside | kWord | kSign | kWhite)) != 0) return end;
    if ((text.at(c.end).bits & kWord) != 0) return end;  // rule B takes c as the front of a word
    end = c.end;
  }
}

}  // namespace

size_t piece_end(std::string_view whole, size_t begin) {
  Stretch text(whole, CharTable::instance());
  const Char c = text.read(begin);
  if ((c.bits & kNumber) != 0) return digits_end(text, c.end);
  text.set_kind(c.bits);
  const Char next = text.at(c.end);
  // A: an ASCII sign with the ASCII letters after it.
  if ((c.bits & kAsciiPunctuation) != 0 && (next.bits & kAsciiLetter) != 0) return text.run(next.end, kAsciiLetter);
  // B: letters and marks, with one character in front that is neither newline nor sign.
  if ((c.bits & kWord) != 0) return text.run(c.end, kWord);
  if ((c.bits & (kNewline | kSign)) == 0 && (next.bits & kWord) != 0) return text.run(next.end, kWord);
  // C: signs, with one space in front and the newlines after them.
  if ((c.bits & kSign) != 0) return text.run(text.run(c.end, kSign), kNewline);
  if (whole[begin] == ' ' && (next.bits & kSign) != 0) return text.run(text.run(next.end, kSign), kNewline);
  if ((c.bits & kWhite) != 0) return blanks_end(text, begin);
  return gap_end(text, c.end);
}

}  // namespace deepinfer
