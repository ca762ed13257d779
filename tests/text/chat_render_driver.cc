// Request objects on standard input, one a line -> {"prompt","special_ranges"} or {"error"}, one a line. For
// chat_oracle_test.py.
#include <iostream>
#include <string>

#include "deepinfer/chat_format.h"
#include "text/json.h"
#include "text/request_json.h"

namespace {

deepinfer::Result<deepinfer::RenderedPrompt> render(const std::string& line) {
  DI_ASSIGN_OR_RETURN(const deepinfer::Request request, deepinfer::read_request(line, {}));
  return deepinfer::ChatFormat::render(request.conversation);
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);) {
    const auto prompt = render(line);
    std::string out = prompt.ok() ? "{\"prompt\": " : "{\"error\": ";
    deepinfer::append_json_string(out, prompt.ok() ? prompt->text : prompt.status().message());
    if (prompt.ok()) {
      out += ", \"special_ranges\": [";
      for (size_t i = 0; i < prompt->special_ranges.size(); ++i) {
        const deepinfer::ByteRange& range = prompt->special_ranges[i];
        out += fmt::format("{}[{}, {}]", i > 0 ? ", " : "", range.begin, range.end);
      }
      out += "]";
    }
    std::cout << out << "}\n";
  }
}
