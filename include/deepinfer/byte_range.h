// ByteRange: a part of a text, half-open, in bytes.
#pragma once

#include <cstddef>

namespace deepinfer {

struct ByteRange {
  size_t begin = 0;
  size_t end = 0;
  bool operator==(const ByteRange&) const = default;
};

}  // namespace deepinfer
