#include "state/page_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

namespace deepinfer {

Result<PagePool> PagePool::create(int64_t page_bytes, int64_t pages) {
  PagePool pool;
  pool.page_bytes_ = page_bytes;
  pool.capacity_ = pages;
  if (pages > 0) {
    void* memory = ::mmap(nullptr, static_cast<size_t>(page_bytes * pages), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      return error(Code::resource_exhausted, "cannot reserve {} pages of {} bytes for compressed rows: {}", pages,
                   page_bytes, std::strerror(errno));
    }
    pool.memory_ = static_cast<std::byte*>(memory);
  }
  pool.free_.reserve(static_cast<size_t>(pages));
  for (int64_t i = pages; i > 0; --i) pool.free_.push_back(pool.memory_ + (i - 1) * page_bytes);
  return pool;
}

PagePool::PagePool(PagePool&& other) noexcept { *this = std::move(other); }

PagePool& PagePool::operator=(PagePool&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(free_, other.free_);
  return *this;
}

PagePool::~PagePool() {
  if (memory_ != nullptr) ::munmap(memory_, static_cast<size_t>(page_bytes_ * capacity_));
}

std::byte* PagePool::take() {
  if (free_.empty()) return nullptr;
  std::byte* page = free_.back();
  free_.pop_back();
  return page;
}

void PagePool::give(std::byte* page) { free_.push_back(page); }

}  // namespace deepinfer
