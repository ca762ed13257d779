#include "verify/verify_kernels.h"

#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/threads.h"
#include "verify/kernel_vectors.h"

namespace deepinfer {

Status verify_kernels(const std::string& dir, const Kernels& kernels, Context& context, Reporter& reporter) {
  const auto hash = [&](const KernelChecks& checks) {
    return check_engram_hash(checks, dir + "/engram_released.json");
  };
  const std::pair<const char*, std::function<Status(const KernelChecks&)>> files[] = {
      {"conversions", check_conversions},
      {"quantizers", check_quantizers},
      {"gemm", check_gemm},
      {"sinkhorn", check_sinkhorn},
      {"sparse_attn", check_sparse_attn},
      {"rope", check_rope},
      {"rmsnorm", check_rmsnorm},
      {"gate", check_gate},
      {"swiglu", check_swiglu},
      {"engram_hash", hash},
      {"candidates", check_candidates},
      {"small_ops", check_small_ops},
  };
  if (!std::filesystem::is_directory(dir)) return error(Code::not_found, "{}: is not a directory", dir);
  // A set may hold fewer files than there are kinds of checks, but all of those that its index lists.
  const std::string index = dir + "/index.json";
  std::string listed;
  if (std::filesystem::exists(index)) {
    DI_ASSIGN_OR_RETURN(listed, read_file(index));
  }
  const KernelFloatMode mode;
  for (const auto& [stem, check] : files) {
    if (!std::filesystem::exists(dir + "/" + stem + ".safetensors")) {
      const std::string name = std::string(stem) + ".safetensors";
      if (listed.find('"' + name + '"') != listed.npos) return invalid("{}: lists {}, which is not there", index, name);
      if (reporter.wants(stem)) reporter.skip(stem, fmt::format("{} has no {}", dir, name));
      continue;
    }
    DI_ASSIGN_OR_RETURN(const VectorFile file, VectorFile::open(dir, stem));
    DI_RETURN_IF_ERROR(check({file, kernels, context, reporter}));
    if (reporter.stopped()) return {};
  }
  return {};
}

}  // namespace deepinfer
