// Characters: UTF-8 in and out, and the character classes of the pre-tokenizer.
//
// Classes are the general categories of Unicode 16.0 (the version of the tokenizer's oracle), from a table of ours, so
// that no installed library moves a boundary. Broken UTF-8 is cut into maximal broken parts as Unicode section 3.9 (and
// the oracle) does: a lead byte with the continuation bytes that could belong to it, or one byte. Threading: pure
// functions and constant tables. Source: golden/tokenizer/pretokenizer.md, "Classes".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

// Bits of a character's class. At most one of the first five is set.
enum CharClass : uint16_t {
  kLetter = 1,       // L
  kMark = 2,         // M
  kNumber = 4,       // N
  kPunctuation = 8,  // P
  kSymbol = 16,      // S
  kWhite = 32,       // White_Space, 25 characters
  kNewline = 64,     // CR and LF (also white)
  kCjk = 128,        // U+4E00-9FA5, U+3040-30FF: the ranges of the second regex, whatever their category
  kAsciiLetter = 256,
  kAsciiPunctuation = 512,  // the 32 of them, categories P and S
};

enum class Utf8 : uint8_t {
  ok,
  broken,     // no character begins like this
  truncated,  // the text ends inside what may still become a character
};

struct Utf8Char {
  uint32_t code_point = 0;  // only if ok
  uint32_t length = 0;      // bytes of the character or of the broken part; >= 1
  Utf8 state = Utf8::ok;
};

// The character at the front of text[0, size), size >= 1.
Utf8Char decode_utf8(const char* text, size_t size);

// Appends code_point (a scalar value) as UTF-8.
void append_utf8(uint32_t code_point, std::string& out);

// Appends `bytes` with every maximal broken part replaced by U+FFFD.
void append_repaired(std::string_view bytes, std::string& out);

// Class of every code point, 0 for none; a two-stage table.
class CharTable {
 public:
  static const CharTable& instance();

  uint16_t ascii(unsigned char c) const { return ascii_[c]; }  // c < 128
  uint16_t operator[](uint32_t code_point) const {
    return code_point < 0x110000 ? blocks_[block_of_[code_point >> 8] * 256u + (code_point & 255)] : 0;
  }

 private:
  CharTable();

  std::array<uint16_t, 128> ascii_{};
  std::array<uint16_t, 0x1100> block_of_{};
  std::vector<uint16_t> blocks_;
};

// The byte-level alphabet of tokenizer.json: every byte as a printable character. Bytes 33-126, 161-172 and 174-255
// stand for themselves, the other 68 in ascending order are U+0100 to U+0143.
uint32_t byte_level_char(uint8_t byte);

// The byte of a byte-level character, -1 if it is none.
int byte_level_byte(uint32_t code_point);

// Appends the bytes that a text in the byte-level alphabet stands for; false at the first character outside the
// alphabet.
bool byte_level_bytes(std::string_view text, std::string& out);

}  // namespace deepinfer
