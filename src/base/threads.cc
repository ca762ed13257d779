#include "base/threads.h"

#include <algorithm>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace deepinfer {
namespace {

#if defined(__x86_64__)
constexpr uint32_t kFlushAndDaz = 0x8040;  // MXCSR: FTZ (bit 15) and DAZ (bit 6)
void pause() { _mm_pause(); }
#else
void pause() {}
#endif

constexpr int kSpins = 4000;  // some microseconds: longer than the gap between two loops of a step

}  // namespace

void set_kernel_float_mode() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | kFlushAndDaz);
#endif
}

KernelFloatMode::KernelFloatMode() : saved_(0) {
#if defined(__x86_64__)
  saved_ = _mm_getcsr();
#endif
  set_kernel_float_mode();
}

KernelFloatMode::~KernelFloatMode() {
#if defined(__x86_64__)
  _mm_setcsr(saved_);
#endif
}

int machine_threads() { return static_cast<int>(std::max(1u, std::thread::hardware_concurrency())); }

int max_threads() { return std::max(16, 4 * machine_threads()); }

ThreadPool::ThreadPool(int threads) {
  workers_.reserve(static_cast<size_t>(threads > 0 ? threads - 1 : 0));
  try {
    for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { worker(i); });
  } catch (const std::system_error&) {
    // The system gives no more threads: those that there are do the work, with the same results.
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  generation_.fetch_add(1);
  generation_.notify_all();
  for (std::thread& thread : workers_) thread.join();
}

void ThreadPool::run_part(int index) {
  if (index >= task_.parts) return;
  const int64_t begin = task_.count * index / task_.parts;
  const int64_t end = task_.count * (index + 1) / task_.parts;
  if (begin < end) task_.call(task_.body, begin, end, index);
}

void ThreadPool::run(Task task, int64_t grain) {
  if (task.count <= 0) return;
  task.parts =
      static_cast<int>(std::min<int64_t>(threads(), std::max<int64_t>(1, task.count / std::max<int64_t>(1, grain))));
  task_ = task;
  if (task.parts == 1) {
    run_part(0);
    return;
  }
  pending_.store(static_cast<int>(workers_.size()), std::memory_order_relaxed);
  generation_.fetch_add(1);
  generation_.notify_all();
  run_part(0);
  // The last worker's decrement publishes its writes; waiting here is short because parts have equal work.
  for (int spin = 0; pending_.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin < kSpins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::worker(int index) {
  set_kernel_float_mode();
  uint64_t seen = 0;
  for (;;) {
    for (int spin = 0; generation_.load(std::memory_order_acquire) == seen && spin < kSpins; ++spin) pause();
    generation_.wait(seen);
    seen = generation_.load(std::memory_order_acquire);
    if (stop_.load()) return;
    run_part(index);
    pending_.fetch_sub(1, std::memory_order_release);
  }
}

}  // namespace deepinfer
