#include "base/status.h"

#include <cstdio>

namespace deepinfer {

void check_failed(const char* file, int line, const char* expression, const std::string& detail) {
  std::fprintf(stderr, "%s:%d: check failed: %s %s\n", file, line, expression, detail.c_str());
  std::abort();
}

}  // namespace deepinfer
