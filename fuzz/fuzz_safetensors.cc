// Any bytes as a safetensors file: refused with a message, or read into views that lie inside the bytes.
#include <cstdlib>
#include <map>
#include <span>
#include <string>

#include "checkpoint/checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  std::map<std::string, TensorView> tensors;
  const Status status = SafetensorsFile::parse(file, "input", tensors);
  if (!status.ok()) {
    if (status.message().empty() || !tensors.empty()) std::abort();
    return 0;
  }
  int64_t total = 0;
  for (const auto& [name, view] : tensors) {
    const std::byte* end = file.data() + file.size();
    if (view.name != name || view.bytes < 0 || view.data < file.data() || view.data > end ||
        view.bytes > end - view.data)
      std::abort();
    if (view.bytes % dtype_bytes(view.dtype) != 0 || view.elements() * dtype_bytes(view.dtype) != view.bytes)
      std::abort();
    total += view.bytes;
  }
  // Header and tensors account for every byte.
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) header = header << 8 | data[i];
  if (8 + header + static_cast<uint64_t>(total) != size) std::abort();
  return 0;
}
