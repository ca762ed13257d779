#include "state/page_pool.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace deepinfer {

Result<PagePool> PagePool::create(int64_t page_bytes, int64_t pages) {
  if (page_bytes < static_cast<int64_t>(sizeof(std::byte*)) || pages < 0)
    return invalid("page pool: {} pages of {} bytes, at least 0 pages of {} bytes are possible", pages, page_bytes,
                   sizeof(std::byte*));
  if (pages > std::numeric_limits<int64_t>::max() / page_bytes)
    return error(Code::resource_exhausted, "cannot reserve {} pages of {} bytes for compressed rows", pages,
                 page_bytes);
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
  return pool;
}

PagePool::PagePool(PagePool&& other) noexcept { *this = std::move(other); }

PagePool& PagePool::operator=(PagePool&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(page_bytes_, other.page_bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(untouched_, other.untouched_);
  std::swap(returned_, other.returned_);
  std::swap(chain_, other.chain_);
  return *this;
}

PagePool::~PagePool() {
  if (memory_ != nullptr) ::munmap(memory_, static_cast<size_t>(page_bytes_ * capacity_));
}

std::byte* PagePool::take() {
  if (chain_ != nullptr) {
    std::byte* page = chain_;
    std::memcpy(&chain_, page, sizeof(chain_));
    --returned_;
    return page;
  }
  return untouched_ < capacity_ ? memory_ + untouched_++ * page_bytes_ : nullptr;
}

void PagePool::give(std::byte* page) {
  std::memcpy(page, &chain_, sizeof(chain_));
  chain_ = page;
  ++returned_;
}

}  // namespace deepinfer
