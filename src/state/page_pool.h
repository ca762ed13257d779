// PagePool: the fixed store of pages that hold compressed rows and index keys of all sequences.
//
// All memory is reserved when the pool is made; take and give never allocate, and making a pool costs nothing a page: pages that were
// never used are counted, those given back are chained through their own first bytes. Threading: one owner (the step loop).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace deepinfer {

class PagePool {
 public:
  // Reserves address space for `pages` pages of at least 8 bytes; the system provides memory when a page is first written.
  // resource_exhausted if there is not so much, invalid_argument for sizes that are none.
  static Result<PagePool> create(int64_t page_bytes, int64_t pages);
  PagePool(PagePool&& other) noexcept;
  PagePool& operator=(PagePool&& other) noexcept;
  ~PagePool();

  // A free page (its bytes are anything), or null when there is none.
  std::byte* take();
  void give(std::byte* page);

  int64_t page_bytes() const { return page_bytes_; }
  int64_t capacity() const { return capacity_; }
  int64_t free_pages() const { return capacity_ - untouched_ + returned_; }

 private:
  PagePool() = default;

  std::byte* memory_ = nullptr;
  int64_t page_bytes_ = 0;
  int64_t capacity_ = 0;
  int64_t untouched_ = 0;       // the first page that was never taken
  int64_t returned_ = 0;        // pages in the chain
  std::byte* chain_ = nullptr;  // the page given back last; its first bytes point to the one before
};

}  // namespace deepinfer
