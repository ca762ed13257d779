// Views that operations take: plain pointers and sizes, no ownership. An op allocates nothing; all scratch comes from the Context.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/formats.h"

namespace deepinfer {

class ThreadPool;

// `rows` x `cols` elements, row-major, `stride` elements from one row to the next.
template <typename T>
struct Rows {
  T* data = nullptr;
  int64_t rows = 0;
  int64_t cols = 0;
  int64_t stride = 0;

  T* row(int64_t r) const { return data + r * stride; }
  operator Rows<const T>() const { return {data, rows, cols, stride}; }
};
template <typename T>
Rows<T> rows_of(T* data, int64_t rows, int64_t cols) {
  return {data, rows, cols, cols};
}

// How a weight is stored (spec 2, 12).
enum class WeightKind : uint8_t {
  bf16,      // [n][k] bf16
  fp8_tile,  // [n][k] E4M3, scale E8M0 [ceil(n/32)][k/32]: one scale per 32 x 32 tile
  fp4_row,   // [n][k/2] two E2M1 a byte (even element low), scale E8M0 [n][k/32]
};

// A weight matrix, [n] outputs by [k] inputs, as the checkpoint holds it (mapped bytes).
struct Matrix {
  WeightKind kind = WeightKind::bf16;
  const void* data = nullptr;
  const uint8_t* scale = nullptr;
  int64_t n = 0;
  int64_t k = 0;
};

// Scratch memory: a block handed out from front to back. Planned at start-up (see Arena::measure in model/), never grown in a step.
class Arena {
 public:
  Arena() = default;
  Arena(std::byte* data, int64_t bytes) : data_(data), capacity_(bytes) {}

  // 64-byte aligned room for `count` values, uninitialised. Null in a measuring arena (one without memory).
  template <typename T>
  T* take(int64_t count) {
    const int64_t begin = (used_ + 63) / 64 * 64;
    used_ = begin + count * static_cast<int64_t>(sizeof(T));
    if (used_ > peak_) peak_ = used_;
    if (data_ == nullptr) return nullptr;
    if (used_ > capacity_) overflow();
    return reinterpret_cast<T*>(data_ + begin);
  }
  int64_t mark() const { return used_; }
  void release(int64_t mark) { used_ = mark; }
  int64_t peak_bytes() const { return peak_; }

 private:
  [[noreturn]] static void overflow();

  std::byte* data_ = nullptr;
  int64_t capacity_ = 0;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

// What every op gets first.
struct Context {
  ThreadPool* pool = nullptr;
  Arena* arena = nullptr;               // scratch of the step; an op leaves it as it found it
  std::byte* thread_scratch = nullptr;  // thread_scratch_bytes for each thread of the pool
  int64_t thread_scratch_bytes = 0;

  std::byte* scratch_of(int thread) const { return thread_scratch + thread * thread_scratch_bytes; }
};

// A sequence of the step, as kernels see it. Rows of one run are consecutive in every [tokens] tensor.
struct RunView {
  int64_t start = 0;         // position of its first token
  int64_t first_row = 0;     // its first row in the step's tensors
  int64_t rows = 0;          // its tokens
  int64_t window_begin = 0;  // positions below it have no window rows (replayed suffix); 0 otherwise
};

}  // namespace deepinfer
