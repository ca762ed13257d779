#include "cli/token_ids.h"

#include <algorithm>
#include <charconv>

namespace deepinfer {

Result<std::vector<int32_t>> parse_token_ids(std::string_view option, std::string_view text) {
  if (text.empty()) return invalid("{}: no token ids", option);
  std::vector<int32_t> ids;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    more = comma != std::string_view::npos;
    const std::string_view item = text.substr(0, comma);
    int32_t id = 0;
    const auto [end, problem] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (problem != std::errc() || end != item.data() + item.size()) {
      return invalid("{}: '{}' is no token id; ids are numbers with commas between them", option, item);
    }
    ids.push_back(id);
    if (more) text.remove_prefix(comma + 1);
  }
  return ids;
}

}  // namespace deepinfer
