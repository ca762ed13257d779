#include "backend/kernels.h"
#include "base/status.h"

namespace deepinfer {

namespace cpu_portable {
extern const Kernels kTable;
}
#if defined(__x86_64__) && !defined(DI_PLANTED_FAULTS)
#if defined(DI_KERNELS_AVX2)
namespace cpu_avx2 {
extern const Kernels kTable;
}
#endif
namespace cpu_avx512 {
extern const Kernels kTable;
}
#endif

void Arena::overflow() {
  check_failed(__FILE__, __LINE__, "arena", "the step needs more scratch than was planned at start-up");
}

std::vector<const Kernels*> cpu_kernels() {
  std::vector<const Kernels*> tables;
#if defined(__x86_64__) && !defined(DI_PLANTED_FAULTS)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq")) {
    tables.push_back(&cpu_avx512::kTable);
  }
#if defined(DI_KERNELS_AVX2)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables.push_back(&cpu_avx2::kTable);
#endif
#endif
  tables.push_back(&cpu_portable::kTable);
  return tables;
}

Result<const Kernels*> cpu_kernels_named(std::string_view name) {
  for (const Kernels* table : cpu_kernels()) {
    if (table->name == name) return table;
  }
  if (name == "avx2" || name == "avx512")
    return error(Code::unsupported, "instruction set '{}': this machine does not have it", name);
  return invalid("instruction set '{}': accepted are avx512, avx2, portable", name);
}

}  // namespace deepinfer
