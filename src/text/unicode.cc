#include "text/unicode.h"

#include <map>

namespace deepinfer {
namespace {

constexpr uint32_t kClassBegins[] = {
#include "text/unicode_classes.inc"
};

bool is_white(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_cjk(uint32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

bool is_ascii_letter(uint32_t c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'); }

uint16_t classify(uint32_t c, uint32_t category_bits) {
  uint32_t bits = category_bits;
  if (is_white(c)) bits |= kWhite;
  if (c == '\r' || c == '\n') bits |= kNewline;
  if (is_cjk(c)) bits |= kCjk;
  if (is_ascii_letter(c)) bits |= kAsciiLetter;
  if (c < 128 && (category_bits & (kPunctuation | kSymbol)) != 0) bits |= kAsciiPunctuation;
  return static_cast<uint16_t>(bits);
}

struct ByteAlphabet {
  std::array<uint32_t, 256> chars{};
  std::array<int16_t, 0x144> bytes{};

  constexpr ByteAlphabet() {
    for (auto& byte : bytes) byte = -1;
    uint32_t next = 0x100;
    for (uint32_t b = 0; b < 256; ++b) {
      const bool itself = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
      chars[b] = itself ? b : next++;
      bytes[chars[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr ByteAlphabet kByteAlphabet;

}  // namespace

Utf8Char decode_utf8(const char* text, size_t size) {
  const auto* p = reinterpret_cast<const unsigned char*>(text);
  const uint32_t lead = p[0];
  if (lead < 0x80) return {lead, 1, Utf8::ok};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, Utf8::broken};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range leaves out overlong forms, surrogates and what lies beyond U+10FFFF.
  const uint32_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint32_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  uint32_t code_point = lead & (0x7Fu >> length);
  for (uint32_t i = 1; i < length; ++i) {
    if (i == size) return {0, i, Utf8::truncated};
    if (p[i] < (i == 1 ? low : 0x80) || p[i] > (i == 1 ? high : 0xBF)) return {0, i, Utf8::broken};
    code_point = code_point << 6 | (p[i] & 0x3Fu);
  }
  return {code_point, length, Utf8::ok};
}

void append_utf8(uint32_t c, std::string& out) {
  const auto put = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

void append_repaired(std::string_view bytes, std::string& out) {
  size_t good = 0;  // [good, i) is well formed and not yet copied
  size_t i = 0;
  while (i < bytes.size()) {
    if (static_cast<unsigned char>(bytes[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Char c = decode_utf8(bytes.data() + i, bytes.size() - i);
    if (c.state != Utf8::ok) {
      out.append(bytes, good, i - good);
      out += "\xEF\xBF\xBD";
      good = i + c.length;
    }
    i += c.length;
  }
  out.append(bytes, good, i - good);
}

const CharTable& CharTable::instance() {
  static const CharTable table;
  return table;
}

CharTable::CharTable() {
  std::map<std::vector<uint16_t>, uint16_t> known;  // equal blocks are kept once: some 200 of 4352
  std::vector<uint16_t> block(256);
  size_t entry = 0;
  constexpr size_t kEntries = std::size(kClassBegins);
  for (uint32_t c = 0; c < 0x110000; ++c) {
    while (entry + 1 < kEntries && (kClassBegins[entry + 1] >> 5) <= c) ++entry;
    block[c & 255] = classify(c, kClassBegins[entry] & 31);
    if (c < 128) ascii_[c] = block[c];
    if ((c & 255) != 255) continue;
    const auto [at, added] = known.emplace(block, static_cast<uint16_t>(known.size()));
    if (added) blocks_.insert(blocks_.end(), block.begin(), block.end());
    block_of_[c >> 8] = at->second;
  }
}

uint32_t byte_level_char(uint8_t byte) { return kByteAlphabet.chars[byte]; }

int byte_level_byte(uint32_t code_point) {
  return code_point < kByteAlphabet.bytes.size() ? kByteAlphabet.bytes[code_point] : -1;
}

bool byte_level_bytes(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Char c = decode_utf8(text.data() + i, text.size() - i);
    const int byte = c.state == Utf8::ok ? byte_level_byte(c.code_point) : -1;
    if (byte < 0) return false;
    out += static_cast<char>(byte);
    i += c.length;
  }
  return true;
}

}  // namespace deepinfer
