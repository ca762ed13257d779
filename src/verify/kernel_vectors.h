// Shared by the kernel checks: golden vector files with checked shapes, and the comparisons of golden/README.md.
//
// Threading one thread. Errors  Status names file and tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/kernels.h"
#include "checkpoint/checkpoint.h"
#include "verify/report.h"

namespace deepinfer {

// A golden tensor: its data lies in the mapped file.
struct Vector {
  const std::byte* data = nullptr;
  std::vector<int64_t> shape;

  int64_t dim(size_t i) const { return shape[i]; }
  int64_t elements() const;
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data);
  }
};

// One file of vectors, `stem`.safetensors.
class VectorFile {
 public:
  static Result<VectorFile> open(const std::string& dir, const std::string& stem);

  const std::string& stem() const { return stem_; }
  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  // The tensor, whose shape must match (-1: any size, at least 1).
  Status take(const std::string& name, DType dtype, const std::vector<int64_t>& shape, Vector& out) const;
  // Everything before `suffix` in tensor names that end with it, in order: "a." of "a.x" for ".x".
  std::vector<std::string> prefixes(const std::string& suffix) const;

 private:
  SafetensorsFile file_;
  std::string stem_;
};

// bf16 elements against golden ones: the share that is not equal, and how far apart.
class Bf16Tally {
 public:
  void add(bf16 got, bf16 want);
  double share() const { return total_ == 0 ? 0 : static_cast<double>(different_) / static_cast<double>(total_); }
  double worst_ulps() const { return worst_; }
  int64_t total() const { return total_; }

 private:
  int64_t total_ = 0, different_ = 0;
  double worst_ = 0;  // in steps of the bf16 grid; infinite if only one of two is a number
};

// What all checks need. Rows are of level 2.
struct KernelChecks {
  const VectorFile& file;
  const Kernels& kernels;
  Context& context;
  Reporter& reporter;

  std::string case_name(const std::string& prefix) const;  // "gemm/fp8_1" of "fp8_1."
  // A value that must not exceed its limit.
  void at_most(const std::string& case_name, const std::string& quantity, double value, double limit) const;
  // Largest |got - want|; infinite where either is not a number.
  void largest_difference(const std::string& case_name, const std::string& quantity, const float* got,
                          const float* want, int64_t count, double limit) const;
  // Elements whose bytes differ; none may.
  void all_equal(const std::string& case_name, const std::string& quantity, const void* got, const void* want,
                 int64_t count, size_t element_bytes) const;
  // Adds to the tally and reports the distance: 1 bf16 ulp at most.
  void bf16_close(const std::string& case_name, const std::string& quantity, const bf16* got, const bf16* want,
                  int64_t count, Bf16Tally& tally) const;
  // Over a whole file: equal on at least 99.9% of the elements.
  void bf16_share(const std::string& quantity, const Bf16Tally& tally) const;
};

// Golden values that lie on a quantiser's grid as stored rows (ops/quantize.h); an error if they do not.
Status window_rows_of(const Vector& values, const std::string& what, std::vector<std::byte>& rows);
Status index_key_rows_of(const Vector& values, const std::string& what, std::vector<std::byte>& rows);

Status check_conversions(const KernelChecks& checks);
Status check_quantizers(const KernelChecks& checks);
Status check_gemm(const KernelChecks& checks);
Status check_sinkhorn(const KernelChecks& checks);
Status check_sparse_attn(const KernelChecks& checks);
Status check_rope(const KernelChecks& checks);
Status check_rmsnorm(const KernelChecks& checks);
Status check_gate(const KernelChecks& checks);
Status check_swiglu(const KernelChecks& checks);
Status check_engram_hash(const KernelChecks& checks, const std::string& constants_path);
Status check_candidates(const KernelChecks& checks);
Status check_small_ops(const KernelChecks& checks);

}  // namespace deepinfer
