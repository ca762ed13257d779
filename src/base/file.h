// Files: read whole, map read-only, write atomically.
//
// Threading: a MappedFile is immutable after opening and may be read from any thread; its bytes live as long as it does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace deepinfer {

// A read-only mapping of a regular file. An empty file maps to an empty span.
class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // not_found if the path does not exist, io_error (with the system's words) otherwise.
  static Result<MappedFile> open(const std::string& path);

  std::span<const std::byte> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  const std::byte* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

// The whole file; files larger than `max_bytes` are refused by name.
Result<std::string> read_file(const std::string& path, size_t max_bytes = size_t{1} << 30);

// Writes to a temporary name beside `path` and renames: readers see the old content or the new, never a part.
Status write_file_atomic(const std::string& path, std::string_view content);

}  // namespace deepinfer
