#include "text/bpe.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "base/status.h"

namespace deepinfer {
namespace {

constexpr uint64_t kGolden = 0x9E3779B97F4A7C15ull;
constexpr uint64_t kMix = 0xD6E8FEB86659FD93ull;
constexpr uint64_t kEmptySlot = UINT64_MAX;
constexpr int kFilterShift = 44;  // 2^20 bits: small enough to stay in a core's cache
constexpr size_t kLongestPiece = size_t{1} << 30;

uint64_t hash_bytes(std::string_view bytes) {
  const char* p = bytes.data();
  size_t n = bytes.size();
  uint64_t h = n * kGolden;
  const auto add = [&h](uint64_t word) {
    h = (h ^ word) * kMix;
    h ^= h >> 32;
  };
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    add(word);
  }
  if (n >= 4) {
    uint32_t front, back;
    std::memcpy(&front, p, 4);
    std::memcpy(&back, p + n - 4, 4);
    add(uint64_t{front} << 32 | back);
  } else if (n > 0) {
    const auto byte = [p](size_t i) { return uint64_t{static_cast<unsigned char>(p[i])}; };
    add(byte(0) << 16 | byte(n / 2) << 8 | byte(n - 1));
  }
  return h * kGolden;
}

// Bits to shift a 64-bit hash by so that it indexes a table at most half full.
int table_shift(size_t entries) {
  int bits = 4;
  while ((size_t{1} << bits) < entries * 2) ++bits;
  return 64 - bits;
}

}  // namespace

Bpe::Bpe(std::vector<std::string> tokens, std::vector<Merge> merges) : merges_(std::move(merges)) {
  DI_CHECK(tokens.size() <= kMaxTokens && merges_.size() <= kMaxMerges);
  byte_ids_.fill(-1);
  token_shift_ = table_shift(tokens.size());
  token_slots_.resize(size_t{1} << (64 - token_shift_));
  offsets_.push_back(0);
  for (size_t id = 0; id < tokens.size(); ++id) {
    const std::string& token = tokens[id];
    bytes_ += token;
    offsets_.push_back(static_cast<uint32_t>(bytes_.size()));
    if (token.empty()) continue;
    if (token.size() == 1) byte_ids_[static_cast<unsigned char>(token[0])] = static_cast<int32_t>(id);
    longest_token_ = std::max(longest_token_, token.size());
    const uint64_t h = hash_bytes(token);
    size_t slot = h >> token_shift_;
    while (token_slots_[slot].id >= 0) slot = (slot + 1) & (token_slots_.size() - 1);
    token_slots_[slot] = {static_cast<uint32_t>(h), static_cast<int32_t>(id)};
  }
  for (const int32_t id : byte_ids_) DI_CHECK(id >= 0);
  whole_ = std::make_unique<std::atomic<uint8_t>[]>(tokens.size());

  pair_shift_ = table_shift(merges_.size());
  pair_filter_.resize(size_t{1} << (64 - kFilterShift));
  pair_slots_.assign(size_t{1} << (64 - pair_shift_), kEmptySlot);
  std::vector<uint32_t> first_use(tokens.size(), kNoRank);
  for (size_t r = 0; r < merges_.size(); ++r) {
    const Merge& m = merges_[r];
    const uint64_t key = static_cast<uint64_t>(m.left) << 21 | static_cast<uint64_t>(m.right);
    size_t slot = (key * kGolden) >> pair_shift_;
    while (pair_slots_[slot] != kEmptySlot) slot = (slot + 1) & (pair_slots_.size() - 1);
    pair_slots_[slot] = key << 21 | r;
    pair_filter_[(key * kGolden) >> kFilterShift] = true;
    for (const int32_t part : {m.left, m.right}) first_use[part] = std::min(first_use[part], static_cast<uint32_t>(r));
  }
  for (size_t r = 0; r < merges_.size(); ++r) ranks_grow_ = ranks_grow_ && first_use[merges_[r].result] > r;
}

int32_t Bpe::find(std::string_view bytes) const {
  const uint64_t h = hash_bytes(bytes);
  for (size_t slot = h >> token_shift_;; slot = (slot + 1) & (token_slots_.size() - 1)) {
    const TokenSlot& s = token_slots_[slot];
    if (s.id < 0) return -1;
    if (s.tag == static_cast<uint32_t>(h) && token(s.id) == bytes) return s.id;
  }
}

uint32_t Bpe::rank(int32_t left, int32_t right) const {
  const uint64_t key = static_cast<uint64_t>(left) << 21 | static_cast<uint64_t>(right);
  const uint64_t hash = key * kGolden;
  if (!pair_filter_[hash >> kFilterShift]) return kNoRank;
  for (size_t slot = hash >> pair_shift_;; slot = (slot + 1) & (pair_slots_.size() - 1)) {
    const uint64_t s = pair_slots_[slot];
    if (s >> 21 == key) return static_cast<uint32_t>(s & (kMaxMerges - 1));
    if (s == kEmptySlot) return kNoRank;
  }
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  for (; piece.size() > kLongestPiece; piece.remove_prefix(kLongestPiece)) {
    merge_long(piece.substr(0, kLongestPiece), scratch, out);
  }
  if (piece.size() <= 1) {
    if (!piece.empty()) out.push_back(byte_ids_[static_cast<unsigned char>(piece[0])]);
    return;
  }
  const int32_t token = piece.size() <= longest_token_ ? find(piece) : -1;
  if (token >= 0 && whole_[token].load(std::memory_order_relaxed) == kYes) {
    out.push_back(token);
    return;
  }
  const size_t before = out.size();
  if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, scratch, out);
  }
  if (token >= 0) {
    const bool itself = out.size() == before + 1 && out.back() == token;
    whole_[token].store(itself ? kYes : kNo, std::memory_order_relaxed);
  }
}

void Bpe::merge_short(std::string_view piece, std::vector<int32_t>& out) const {
  int32_t symbols[kShortPiece];
  uint32_t ranks[kShortPiece];  // ranks[i]: of the pair (i, i + 1)
  size_t n = piece.size();
  for (size_t i = 0; i < n; ++i) symbols[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank(symbols[i], symbols[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) best = ranks[i] < ranks[best] ? i : best;
    if (ranks[best] == kNoRank) break;
    symbols[best] = merges_[ranks[best]].result;
    --n;
    for (size_t i = best + 1; i < n; ++i) {
      symbols[i] = symbols[i + 1];
      ranks[i - 1] = ranks[i];
    }
    if (best > 0) ranks[best - 1] = rank(symbols[best - 1], symbols[best]);
    if (best + 1 < n) ranks[best] = rank(symbols[best], symbols[best + 1]);
  }
  out.insert(out.end(), symbols, symbols + n);
}

// While the pair of lowest rank makes up an eighth of the piece, merges all of it in one sweep. That is the rule itself
// when ranks grow: no merge of the sweep can make a pair that would have been due earlier. In a run of one pattern a
// few sweeps may do less (they cost little there, since neighbours ask for the same pair): the odd symbols at the end
// of the run must not send the whole of it to the heap.
void Bpe::sweep(std::vector<int32_t>& symbols) const {
  size_t n = symbols.size();
  for (int spare = 16; n > 256;) {
    uint32_t lowest = kNoRank, last_rank = kNoRank;
    size_t count = 0, changes = 0;
    int32_t last_left = -1, last_right = -1;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (symbols[i] != last_left || symbols[i + 1] != last_right) {
        last_left = symbols[i];
        last_right = symbols[i + 1];
        last_rank = rank(last_left, last_right);
        ++changes;
      }
      if (last_rank < lowest) {
        lowest = last_rank;
        count = 0;
      }
      count += last_rank == lowest;
    }
    if (lowest == kNoRank) break;
    if (count < n / 8 && (changes > n / 8 || spare-- == 0)) break;
    const Merge m = merges_[lowest];
    size_t to = 0;
    for (size_t from = 0; from < n; ++to) {
      const bool pair = from + 1 < n && symbols[from] == m.left && symbols[from + 1] == m.right;
      symbols[to] = pair ? m.result : symbols[from];
      from += pair ? 2 : 1;
    }
    n = to;
  }
  symbols.resize(n);
}

void Bpe::merge_long(std::string_view piece, Scratch& scratch, std::vector<int32_t>& out) const {
  std::vector<int32_t>& symbols = scratch.symbols;
  symbols.resize(piece.size());
  for (size_t i = 0; i < piece.size(); ++i) symbols[i] = byte_ids_[static_cast<unsigned char>(piece[i])];
  if (ranks_grow_) sweep(symbols);

  // What is left is a linked list with a heap of its pairs, rank above place: the lowest key is the next merge.
  const auto n = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t>&ranks = scratch.ranks, &previous = scratch.previous, &next = scratch.next;
  std::vector<uint64_t>& heap = scratch.heap;
  heap.clear();
  for (uint32_t i = 0; i + 1 < n; ++i) {
    const uint32_t r = rank(symbols[i], symbols[i + 1]);
    if (r != kNoRank) heap.push_back(uint64_t{r} << 32 | i);
  }
  if (heap.empty()) {
    out.insert(out.end(), symbols.begin(), symbols.end());
    return;
  }
  ranks.assign(n, kNoRank);
  previous.resize(n);
  next.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    previous[i] = i - 1;  // of the first one: n or more, no place
    next[i] = i + 1;
  }
  for (const uint64_t entry : heap) ranks[static_cast<uint32_t>(entry)] = static_cast<uint32_t>(entry >> 32);
  const auto later = std::greater<uint64_t>();
  std::make_heap(heap.begin(), heap.end(), later);
  const auto set_rank = [&](uint32_t i) {
    ranks[i] = next[i] < n ? rank(symbols[i], symbols[next[i]]) : kNoRank;
    if (ranks[i] == kNoRank) return;
    heap.push_back(uint64_t{ranks[i]} << 32 | i);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const uint64_t entry = heap.back();
    heap.pop_back();
    const auto i = static_cast<uint32_t>(entry);
    if (ranks[i] != entry >> 32) continue;  // one of the two symbols has changed since
    const uint32_t gone = next[i];
    symbols[i] = merges_[ranks[i]].result;
    ranks[gone] = kNoRank;
    next[i] = next[gone];
    if (next[i] < n) previous[next[i]] = i;
    set_rank(i);
    if (previous[i] < n) set_rank(previous[i]);
  }
  for (uint32_t i = 0; i < n; i = next[i]) out.push_back(symbols[i]);
}

}  // namespace deepinfer
