// A fixed pool of threads for data-parallel loops, and the floating-point mode that all of them run in.
//
// Threading: a ThreadPool is used by one caller at a time (the step loop); the tasks of one parallel_for run
// concurrently. Results never depend on the number of threads: kernels give each output to exactly one task.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace deepinfer {

// Sets flush-to-zero and denormals-are-zero on the calling thread, as every thread that runs kernels must (numbers
// would otherwise depend on the path taken: some instructions always flush). A no-op on machines without such a mode.
void set_kernel_float_mode();

// Sets the kernel mode for a scope and restores the caller's.
class KernelFloatMode {
 public:
  KernelFloatMode();
  ~KernelFloatMode();
  KernelFloatMode(const KernelFloatMode&) = delete;
  KernelFloatMode& operator=(const KernelFloatMode&) = delete;

 private:
  uint32_t saved_;
};

// How many threads the machine runs at once; at least 1. What an option of 0 threads means.
int machine_threads();
// The most that an option may ask for: more of them than cores only wait for each other.
int max_threads();

class ThreadPool {
 public:
  // `threads` >= 1 counts the caller; 1 starts none. Fewer are started if the system refuses more.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end, thread) over [0, count), cut into at most threads() contiguous parts of nearly equal length;
  // returns when all are done. thread is 0..threads()-1 (0 = the caller) and names a slot of scratch. `grain`: smallest
  // part worth a thread; a count <= grain runs on the caller. Must not be called from inside a body. Allocates nothing.
  template <typename Body>
  void parallel_for(int64_t count, int64_t grain, Body&& body) {
    run({[](void* f, int64_t begin, int64_t end, int thread) {
           (*static_cast<std::remove_reference_t<Body>*>(f))(begin, end, thread);
         },
         const_cast<void*>(static_cast<const void*>(&body)), count, 1},
        grain);
  }

 private:
  struct Task {
    void (*call)(void*, int64_t, int64_t, int) = nullptr;
    void* body = nullptr;
    int64_t count = 0;
    int parts = 0;
  };
  void run(Task task, int64_t grain);
  void worker(int index);
  void run_part(int index);

  Task task_;
  std::atomic<uint64_t> generation_{0};  // bumped to start a loop
  std::atomic<int> pending_{0};          // workers that have not finished the current loop
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
};

}  // namespace deepinfer
