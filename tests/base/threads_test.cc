#include "base/threads.h"

#include <gtest/gtest.h>

#include <numeric>

namespace deepinfer {
namespace {

TEST(ThreadPool, CoversEveryIndexOnceForAllSizes) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 2, 3, 7, 8, 9, 1000}) {
      std::vector<int> hits(static_cast<size_t>(count), 0);
      pool.parallel_for(count, 1, [&](int64_t begin, int64_t end, int thread) {
        ASSERT_GE(thread, 0);
        ASSERT_LT(thread, threads);
        for (int64_t i = begin; i < end; ++i) ++hits[static_cast<size_t>(i)];
      });
      EXPECT_EQ(std::accumulate(hits.begin(), hits.end(), 0), count);
      for (const int hit : hits) EXPECT_EQ(hit, 1);
    }
  }
}

TEST(ThreadPool, WorkersFlushDenormals) {
  const KernelFloatMode mode;
  ThreadPool pool(4);
  std::vector<float> results(4, 1.0f);
  pool.parallel_for(4, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      volatile float tiny = 0x1p-100f;
      results[static_cast<size_t>(i)] = tiny * 0x1p-40f;
    }
  });
  for (const float result : results) EXPECT_EQ(result, 0.0f);
}

TEST(ThreadPool, ManyShortLoops) {
  ThreadPool pool(2);
  int64_t total = 0;
  std::vector<int64_t> parts(2, 0);
  for (int i = 0; i < 20000; ++i) {
    pool.parallel_for(
        2, 1, [&](int64_t begin, int64_t end, int thread) { parts[static_cast<size_t>(thread)] += end - begin; });
  }
  total = parts[0] + parts[1];
  EXPECT_EQ(total, 40000);
}

}  // namespace
}  // namespace deepinfer
