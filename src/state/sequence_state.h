// SequenceState: all that a sequence owns, as one value that can be measured, truncated, saved and compared.
//
// Live entries (everything else is dead and may hold anything):
//   ring of layer l     the last min(length - begin, window) positions; begin is window_begin() for decoder layers and draft stages, else 0
//   compressed rows     of source s: rows 0 .. length / ratio - 1
//   carry               of a ratio-2 source: position length - 1 if length is odd (its group is open)
//   n-gram tail         the last min(length, max_ngram - 1) classes
// Two sequences are equal when their canonical() bytes are: live entries in position order, whatever the slots.
//
// Threading: one owner. The pool and layout outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backend/ops/index_select.h"
#include "base/status.h"
#include "state/layout.h"
#include "state/page_pool.h"

namespace deepinfer {

class SequenceState {
 public:
  SequenceState(std::shared_ptr<const StateLayout> layout, PagePool* pool);
  SequenceState(SequenceState&& other) noexcept = default;
  SequenceState& operator=(SequenceState&& other) noexcept;
  ~SequenceState();

  const StateLayout& layout() const { return *layout_; }
  int64_t length() const { return length_; }
  // First position with window rows in the decoder half; above 0 after a replayed prefill.
  int64_t window_begin() const { return window_begin_; }
  void set_window_begin(int64_t position) { window_begin_ = position; }

  // Makes room for positions up to `length`. resource_exhausted when the pool has too few pages; nothing is lost then.
  Status reserve(int64_t length);
  // The step has written positions up to `length`.
  void advance(int64_t length);
  // Forgets positions from `length` on: exact, copies nothing (pages stay reserved). Refused further back than `rollback` positions from the furthest position
  // written, or below the length at which the state was restored.
  Status truncate(int64_t length);
  // Back to an empty sequence, of which nothing is remembered; pages return to the pool.
  void clear();

  std::byte* ring(int64_t index) { return fixed_.data() + index * layout_->ring_bytes(); }
  const std::byte* ring(int64_t index) const { return fixed_.data() + index * layout_->ring_bytes(); }
  // Carry (k, then z) of an even position of a ratio-2 source.
  float* carry(int source, int64_t position);
  int32_t* tail() { return reinterpret_cast<int32_t*>(fixed_.data() + layout_->tail_offset); }
  PagedRows rows(int source) const;

  // The canonical bytes (docs/state-format.md), and back. A saved state of another layout, a damaged one (data_loss) or one that the pool
  // has no room for is refused, and this state stays what it was.
  std::string canonical() const;
  int64_t canonical_bytes() const;
  Status restore(std::string_view bytes);

  // Fills every dead entry with `byte`, to prove that nothing reads it.
  void poison_dead(std::byte byte);

 private:
  std::shared_ptr<const StateLayout> layout_;
  PagePool* pool_;
  std::vector<std::byte> fixed_;
  std::vector<std::vector<std::byte*>> pages_;  // by source
  int64_t length_ = 0;
  int64_t window_begin_ = 0;
  int64_t written_ = 0;  // furthest position ever written, plus one
  int64_t floor_ = 0;    // length at restore
};

}  // namespace deepinfer
