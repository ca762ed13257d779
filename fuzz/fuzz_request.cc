// Any bytes as a request object: no crash; what is accepted renders, with control tokens in their places, and is printed as JSON
// that reads back to the same text.
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "deepinfer/chat_format.h"
#include "text/json.h"
#include "text/request_json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto document = deepinfer::JsonValue::parse(text);
  if (document.ok()) {
    const std::string printed = document->dump();
    const auto again = deepinfer::JsonValue::parse(printed);
    DI_CHECK(again.ok() && again->dump() == printed);
  }
  const auto request = deepinfer::read_request(text, {});
  if (!request.ok()) {
    DI_CHECK(!request.status().message().empty());
    return 0;
  }
  DI_CHECK(document.ok() && deepinfer::validate(*request).ok());
  if (request->conversation.messages.empty()) return 0;
  const auto prompt = deepinfer::ChatFormat::render(request->conversation);
  DI_CHECK(prompt.ok());
  size_t at = 0;
  for (const deepinfer::ByteRange& range : prompt->special_ranges) {
    DI_CHECK(at <= range.begin && range.begin < range.end && range.end <= prompt->text.size());
    at = range.end;
  }
  return 0;
}
