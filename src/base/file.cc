#include "base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace deepinfer {
namespace {

Status system_error(const std::string& path, const char* what) {
  const Code code = errno == ENOENT ? Code::not_found : Code::io_error;
  return error(code, "{}: {}: {}", path, what, std::strerror(errno));
}

}  // namespace

MappedFile::MappedFile(MappedFile&& other) noexcept { *this = std::move(other); }

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return system_error(path, "cannot open");
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    Status status = system_error(path, "cannot stat");
    ::close(fd);
    return status;
  }
  if (!S_ISREG(info.st_mode)) {
    ::close(fd);
    return error(Code::io_error, "{}: not a regular file", path);
  }
  MappedFile file;
  file.path_ = path;
  file.size_ = static_cast<size_t>(info.st_size);
  if (file.size_ > 0) {
    void* data = ::mmap(nullptr, file.size_, PROT_READ, MAP_SHARED, fd, 0);
    if (data == MAP_FAILED) {
      Status status = system_error(path, "cannot map");
      ::close(fd);
      file.size_ = 0;
      return status;
    }
    file.data_ = static_cast<const std::byte*>(data);
  }
  ::close(fd);
  return file;
}

Result<std::string> read_file(const std::string& path, size_t max_bytes) {
  DI_ASSIGN_OR_RETURN(MappedFile file, MappedFile::open(path));
  if (file.bytes().size() > max_bytes) {
    return invalid("{}: {} bytes, at most {} are accepted here", path, file.bytes().size(), max_bytes);
  }
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

Status write_file_atomic(const std::string& path, std::string_view content) {
  const std::string temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return system_error(temporary, "cannot create");
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Status status = system_error(temporary, "cannot write");
      ::close(fd);
      ::unlink(temporary.c_str());
      return status;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  if (::fsync(fd) != 0 || ::close(fd) != 0) {
    Status status = system_error(temporary, "cannot flush");
    ::unlink(temporary.c_str());
    return status;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    Status status = system_error(path, "cannot rename into place");
    ::unlink(temporary.c_str());
    return status;
  }
  return {};
}

}  // namespace deepinfer
