// A step allocates nothing: its scratch was planned at load, its pages are reserved. Every allocation of the process is counted here, on all
// threads, in a binary of its own.
#include <atomic>
#include <cstdlib>
#include <new>

#include "support.h"

namespace {
std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0}, allocated_bytes{0};

void* counted(std::size_t size, std::size_t alignment = alignof(std::max_align_t)) {
  if (counting.load(std::memory_order_relaxed)) {
    allocations.fetch_add(1, std::memory_order_relaxed);
    allocated_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
  void* memory = std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  return memory != nullptr ? memory : std::aligned_alloc(alignment, alignment);
}
}  // namespace

void* operator new(std::size_t size) { return counted(size); }
void* operator new[](std::size_t size) { return counted(size); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new(std::size_t size, std::align_val_t a) { return counted(size, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t size, std::align_val_t a) { return counted(size, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace deepinfer::props {
namespace {

// Allocations of one call.
template <typename Call>
int64_t count_allocations(Call&& call) {
  allocations = 0;
  counting = true;
  call();
  counting = false;
  return allocations;
}

TEST(Allocations, TheCounterCounts) {
  int64_t size = 100;
  EXPECT_EQ(count_allocations([&] { std::free(::operator new(static_cast<size_t>(size))); }), 1);
  EXPECT_EQ(count_allocations([] {}), 0);
}

class StepAllocations : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, StepAllocations, testing::Values("nano", "odd", "tiny"));

TEST_P(StepAllocations, None) {
  Random random(70);
  for (auto& model : load_two(subject(GetParam()))) {
    SCOPED_TRACE(name_of(*model));
    constexpr int64_t kTokens = 260;
    PagePool pool = dirty_pool(*model, 4, kTokens);
    const std::vector<int32_t> tokens = random_tokens(model->config(), kTokens, random);
    std::vector<SequenceState> states;
    for (int i = 0; i < 4; ++i) {
      states.push_back(dirty_state(*model, pool));
      ASSERT_TRUE(states.back().reserve(kTokens).ok());
    }
    const auto forward = [&](const StepRuns& runs) {
      bool ok = false;
      const int64_t count = count_allocations([&] { ok = model->forward({runs, nullptr}).ok(); });
      EXPECT_TRUE(ok);
      return count;
    };
    const std::span<const int32_t> ids(tokens);
    // Prefill, a replayed prefill, decode and a block of drafts together, and decode at growing lengths.
    EXPECT_EQ(forward({{&states[0], ids.first(150), LogitRows::last, 0}}), 0);
    EXPECT_EQ(forward({{&states[1], ids.first(150), LogitRows::last, 140}}), 0);
    EXPECT_EQ(forward({{&states[0], ids.subspan(150, 1), LogitRows::last, 0},
                       {&states[1], ids.subspan(150, 6), LogitRows::all, 0},
                       {&states[2], ids.first(33), LogitRows::none, 0}}),
              0);
    for (int64_t p = 151; p < kTokens; p += 1) {
      ASSERT_EQ(forward({{&states[0], ids.subspan(static_cast<size_t>(p), 1), LogitRows::last, 0}}), 0) << p;
    }
    EXPECT_EQ(count_allocations([&] { ASSERT_TRUE(states[1].truncate(152).ok()); }), 0);

    // A draft hands out vectors of ids and confidences: how many allocations depends on nothing but that.
    std::vector<int64_t> counts;
    for (const int i : {0, 2}) {
      const DraftRun draft{&states[static_cast<size_t>(i)], 5};
      counts.push_back(count_allocations([&] { EXPECT_TRUE(model->draft({&draft, 1}).ok()); }));
    }
    EXPECT_EQ(counts[0], counts[1]);
    EXPECT_LE(counts[0], 3);

    // Without room taken beforehand only the lists of pages grow.
    SequenceState growing = dirty_state(*model, pool);
    states[0].clear();
    int64_t total = 0;
    for (int64_t p = 0; p < kTokens; p += 1)
      total += forward({{&growing, ids.subspan(static_cast<size_t>(p), 1), LogitRows::none, 0}});
    EXPECT_LE(total, static_cast<int64_t>(model->layout()->sources.size()) * 4);
  }
}

}  // namespace
}  // namespace deepinfer::props
