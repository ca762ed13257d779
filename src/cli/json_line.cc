#include "cli/json_line.h"

#include <nlohmann/json.hpp>

namespace deepinfer {

std::string quoted_json(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace deepinfer
