// Token ids on the command line: numbers with commas between them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace deepinfer {

// `option` names the source in messages. No ids at all is an error.
Result<std::vector<int32_t>> parse_token_ids(std::string_view option, std::string_view text);

}  // namespace deepinfer
