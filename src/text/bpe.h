// Byte-pair merging: the ids of one piece.
//
// Rule     the piece's bytes are its first symbols; while any neighbouring pair is in the list of merges, the pair of
// lowest rank
//          is replaced by its result, leftmost first among equals. A piece that is itself a token is no exception (no
//          `ignore_merges`).
// Cost     pieces that are one token: one look-up. Others: a scan per merge up to kShortPiece bytes, then O(n log n) by
// a heap; in
//          front of the heap, whole sweeps while one pair makes up much of the piece, which makes runs of a letter
//          linear.
// Threading a built model is constant and may be used by any number of threads, each with its own Scratch.
// Ownership holds copies of everything it needs. Source: golden/tokenizer/pretokenizer.md, "Order" 4.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

// (left, right) -> result; its rank is its place in the list.
struct Merge {
  int32_t left = 0, right = 0, result = 0;
};

class Bpe {
 public:
  // Ids and ranks are packed into 64-bit keys; the reader of tokenizer.json refuses more than this many of either.
  static constexpr size_t kMaxTokens = size_t{1} << 21;
  static constexpr size_t kMaxMerges = size_t{1} << 21;

  // Work space of encode(), to be reused between pieces.
  struct Scratch {
    std::vector<int32_t> symbols;
    std::vector<uint32_t> ranks, previous, next;
    std::vector<uint64_t> heap;
  };

  // `tokens[id]` are the bytes of the token, empty for an id that merging cannot give (added tokens); non-empty entries
  // are distinct, every single byte is among them, and merges name such entries, no pair twice.
  Bpe(std::vector<std::string> tokens, std::vector<Merge> merges);

  // Appends the ids of `piece`. A piece of more than 2^30 bytes is cut there.
  void encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;

  // The token with exactly these bytes, or -1.
  int32_t find(std::string_view bytes) const;

 private:
  static constexpr size_t kShortPiece = 64;
  static constexpr uint32_t kNoRank = UINT32_MAX;

  uint32_t rank(int32_t left, int32_t right) const;
  void merge_short(std::string_view piece, std::vector<int32_t>& out) const;
  void merge_long(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const;
  void sweep(std::vector<int32_t>& symbols) const;
  std::string_view token(int32_t id) const {
    return std::string_view(bytes_).substr(offsets_[id], offsets_[id + 1] - offsets_[id]);
  }

  std::string bytes_;              // of all tokens, end to end
  std::vector<uint32_t> offsets_;  // tokens + 1
  std::vector<Merge> merges_;
  std::array<int32_t, 256> byte_ids_{};
  size_t longest_token_ = 0;
  bool ranks_grow_ = true;  // no result is used by a merge of lower rank: equal pairs may be merged in one sweep

  struct TokenSlot {
    uint32_t tag = 0;  // upper half of the hash
    int32_t id = -1;
  };
  std::vector<TokenSlot> token_slots_;  // open addressing, a power of two
  int token_shift_ = 0;

  std::vector<uint64_t> pair_slots_;  // left | right | rank in 21 bits each; open addressing, a power of two
  int pair_shift_ = 0;
  std::vector<bool>
      pair_filter_;  // by hash: false for most pairs that are no merge, which is most pairs that are asked for

  // Whether merging the token's own bytes gives the token: found out at its first use. Threads may find out the same
  // twice.
  enum Whole : uint8_t { kUnknown, kYes, kNo };
  std::unique_ptr<std::atomic<uint8_t>[]> whole_;
};

}  // namespace deepinfer
