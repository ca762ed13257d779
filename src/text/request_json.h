// The request object: JSON text -> Request. The format is docs/requests.md.
//
// Strict: a field that is not known is an error that names it and the nearest known one; a value of another type is an
// error with its path ("messages[2].content[0].type") and what is accepted; null is the same as absent; the result has
// passed validate().
// Threading: pure. Errors: invalid_argument; unsupported for image parts.
#pragma once

#include <string_view>

#include "base/status.h"
#include "deepinfer/request.h"

namespace deepinfer {

// `defaults`: the sampling values of absent fields, from the model's generation_config.json or the command line.
Result<Request> read_request(std::string_view json, const SamplingParams& defaults);

}  // namespace deepinfer
