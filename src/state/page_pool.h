// PagePool: the fixed store of pages that hold compressed rows and index keys of all sequences.
//
// All memory is reserved when the pool is made; take and give never allocate. Threading: one owner (the step loop).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.h"

namespace deepinfer {

class PagePool {
 public:
  // Reserves address space for `pages` pages; the system provides memory when a page is first written.
  static Result<PagePool> create(int64_t page_bytes, int64_t pages);
  PagePool(PagePool&& other) noexcept;
  PagePool& operator=(PagePool&& other) noexcept;
  ~PagePool();

  // A free page, or null when there is none.
  std::byte* take();
  void give(std::byte* page);

  int64_t page_bytes() const { return page_bytes_; }
  int64_t capacity() const { return capacity_; }
  int64_t free_pages() const { return static_cast<int64_t>(free_.size()); }

 private:
  PagePool() = default;

  std::byte* memory_ = nullptr;
  int64_t page_bytes_ = 0;
  int64_t capacity_ = 0;
  std::vector<std::byte*> free_;
};

}  // namespace deepinfer
