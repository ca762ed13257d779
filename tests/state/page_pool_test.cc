#include "state/page_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <set>

#include "written_state.h"

namespace deepinfer {
namespace {

constexpr int64_t kPageBytes = 24;

// Every page is handed out once, keeps its content while it is out, and comes back; the count is right at every moment.
TEST(PagePool, ConservesPages) {
  constexpr int64_t kPages = 40;
  PagePool pool = PagePool::create(kPageBytes, kPages).value();
  EXPECT_EQ(pool.capacity(), kPages);
  std::vector<std::byte*> out;
  std::set<std::byte*> seen;
  for (uint64_t i = 0; i < 20000; ++i) {
    const uint64_t word = random_word(7, i);
    // Phases of filling and of draining, so that both ends are reached.
    const bool take = word % 8 < (i / 500 % 2 == 0 ? 6u : 2u);
    if (take) {
      std::byte* page = pool.take();
      ASSERT_EQ(page == nullptr, out.size() == kPages);
      if (page == nullptr) continue;
      std::memset(page, static_cast<int>(reinterpret_cast<uintptr_t>(page) / kPageBytes & 0xFF), kPageBytes);
      out.push_back(page);
      seen.insert(page);
    } else if (!out.empty()) {
      const size_t at = static_cast<size_t>(word >> 8) % out.size();
      std::byte* page = out[at];
      for (int64_t b = 0; b < kPageBytes; ++b) {
        ASSERT_EQ(page[b], static_cast<std::byte>(reinterpret_cast<uintptr_t>(page) / kPageBytes & 0xFF));
      }
      out[at] = out.back();
      out.pop_back();
      pool.give(page);
    }
    ASSERT_EQ(pool.free_pages(), kPages - static_cast<int64_t>(out.size()));
    ASSERT_EQ(std::set<std::byte*>(out.begin(), out.end()).size(), out.size());
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kPages));
  EXPECT_EQ(*seen.rbegin() - *seen.begin(), (kPages - 1) * kPageBytes);
}

TEST(PagePool, MovesWithItsPages) {
  PagePool a = PagePool::create(kPageBytes, 3).value();
  std::byte* first = a.take();
  std::byte* second = a.take();
  a.give(first);
  PagePool b = std::move(a);
  EXPECT_EQ(b.free_pages(), 2);
  EXPECT_EQ(b.take(), first);
  PagePool c = PagePool::create(kPageBytes, 1).value();
  c = std::move(b);
  EXPECT_EQ(c.capacity(), 3);
  EXPECT_EQ(c.free_pages(), 1);
  c.give(second);
  c.give(first);
  EXPECT_EQ(c.free_pages(), 3);
}

TEST(PagePool, EmptyAndImpossibleSizes) {
  PagePool empty = PagePool::create(kPageBytes, 0).value();
  EXPECT_EQ(empty.free_pages(), 0);
  EXPECT_EQ(empty.take(), nullptr);

  const auto huge = PagePool::create(kPageBytes, std::numeric_limits<int64_t>::max());
  ASSERT_FALSE(huge.ok());
  EXPECT_EQ(huge.status().code(), Code::resource_exhausted);
  EXPECT_NE(huge.status().message().find("cannot reserve 9223372036854775807 pages of 24 bytes"), std::string::npos);
  // 2^62 bytes do not overflow, but no machine maps them.
  EXPECT_EQ(PagePool::create(64, int64_t{1} << 56).status().code(), Code::resource_exhausted);
  EXPECT_EQ(PagePool::create(kPageBytes, -1).status().code(), Code::invalid_argument);
  EXPECT_EQ(PagePool::create(4, 10).status().code(), Code::invalid_argument);
}

// A pool for a long context and many sequences costs nothing until pages are used.
TEST(PagePool, MakingOneTouchesNothing) {
  auto pool = PagePool::create(64 * 356, 1 << 21);  // 48 GB of addresses
  if (!pool.ok()) GTEST_SKIP() << "this machine does not reserve 48 GB of addresses: " << pool.status().message();
  EXPECT_EQ(pool->free_pages(), 1 << 21);
  std::byte* page = pool->take();
  ASSERT_NE(page, nullptr);
  pool->give(page);
  EXPECT_EQ(pool->free_pages(), 1 << 21);
}

}  // namespace
}  // namespace deepinfer
