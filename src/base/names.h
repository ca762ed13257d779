// The nearest of some known names, for messages about unknown ones. Pure functions; lengths are in bytes.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace deepinfer {

// Number of single-byte insertions, deletions and replacements between two names; of each the first 64 bytes count.
inline size_t edit_distance(std::string_view a, std::string_view b) {
  a = a.substr(0, 64);
  b = b.substr(0, 64);
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

// The known name with the smallest edit distance (the first of equals); empty if there are none.
inline std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  std::string_view best;
  size_t best_distance = std::string_view::npos;
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) best = candidate, best_distance = distance;
  }
  return std::string(best);
}

}  // namespace deepinfer
