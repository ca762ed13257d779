// Finds added tokens (control tokens and the like) in a text: leftmost, the longest one where several begin.
//
// Cost     one step a byte where no token begins; contents are at most kMaxBytes long, so a look never goes further
// than that. Threading constant once built. Ownership holds copies. Source: golden/tokenizer/pretokenizer.md,
// "Order" 1.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace deepinfer {

class AddedTokenMatcher {
 public:
  // Longer contents are refused by the reader of tokenizer.json.
  static constexpr size_t kMaxBytes = 1024;

  AddedTokenMatcher() : nodes_(1) {}

  // `content` is not empty; a second one with the same bytes takes the place of the first.
  void add(std::string_view content, int32_t id);

  struct Match {
    size_t begin = 0, end = 0;
    int32_t id = -1;  // -1: no match; begin and end are then the end of the text
  };
  Match find(std::string_view text, size_t from) const;

  // The longest token that begins exactly at `begin`; id -1: none.
  Match at(std::string_view text, size_t begin) const;

 private:
  // A trie; the children of a node are a list.
  struct Node {
    int32_t first_child = -1, sibling = -1;
    int32_t id = -1;  // of the token that ends here
    unsigned char byte = 0;
  };
  int32_t child(int32_t node, unsigned char byte) const;

  std::vector<Node> nodes_;
  std::array<bool, 256> begins_{};  // bytes that some token begins with
};

}  // namespace deepinfer
