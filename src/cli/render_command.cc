#include "cli/render_command.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/status.h"
#include "deepinfer/chat_format.h"
#include "deepinfer/tokenizer.h"
#include "text/json.h"
#include "text/request_json.h"

namespace deepinfer {
namespace {

struct Rendered {
  RenderedPrompt prompt;
  std::vector<int32_t> ids;
};

Result<Rendered> render_line(const std::string& line, const Tokenizer& tokenizer) {
  DI_ASSIGN_OR_RETURN(const Request request, read_request(line, {}));
  Rendered out;
  if (request.prompt) {
    out.prompt.text = *request.prompt;
    out.ids = tokenizer.encode(*request.prompt);
  } else if (request.prompt_token_ids) {
    DI_ASSIGN_OR_RETURN(out.prompt.text, tokenizer.decode(*request.prompt_token_ids));
    out.ids = *request.prompt_token_ids;
  } else {
    DI_ASSIGN_OR_RETURN(out.prompt, ChatFormat::render(request.conversation));
    DI_ASSIGN_OR_RETURN(out.ids, tokenizer.encode_ranges(out.prompt.text, out.prompt.special_ranges));
  }
  return out;
}

std::string to_json(const Result<Rendered>& rendered) {
  std::string out;
  if (!rendered.ok()) {
    out = "{\"error\":";
    append_json_string(out, rendered.status().message());
    return out + "}";
  }
  out = "{\"prompt\":";
  append_json_string(out, rendered->prompt.text);
  out += fmt::format(",\"ids\":[{}],\"special_ranges\":[", fmt::join(rendered->ids, ","));
  const char* separator = "";
  for (const ByteRange& range : rendered->prompt.special_ranges) {
    out += fmt::format("{}[{},{}]", separator, range.begin, range.end);
    separator = ",";
  }
  return out + "]}";
}

}  // namespace

void add_render_options(CLI::App& command, RenderOptions& options) {
  command.add_option("--protocol", options.protocol, "form of the requests: request (this version has no other)");
  command.add_option("--tokenizer", options.tokenizer, "a tokenizer.json (default: the model's)");
}

int run_render(const RenderOptions& options, const Globals& globals) {
  RenderOptions with_path = options;
  if (with_path.tokenizer.empty()) {
    with_path.tokenizer = (globals.model_dir.empty() ? bundled_model_dir() : globals.model_dir) + "/tokenizer.json";
  }
  std::ios::sync_with_stdio(false);
  return render_lines(with_path, std::cin, std::cout, std::cerr);
}

int render_lines(const RenderOptions& options, std::istream& in, std::ostream& out, std::ostream& errors) {
  if (options.protocol == "chat" || options.protocol == "responses" || options.protocol == "messages") {
    errors << "deepinfer: render: --protocol " << options.protocol
           << " is not part of this version; accepted is request\n";
    return Globals::kUsage;
  }
  if (options.protocol != "request") {
    errors << "deepinfer: render: --protocol '" << options.protocol
           << "' is unknown; accepted are request, chat, responses, messages\n";
    return Globals::kUsage;
  }
  const auto tokenizer = Tokenizer::open(options.tokenizer);
  if (!tokenizer.ok()) {
    errors << "deepinfer: render: " << tokenizer.status().message() << "\n";
    return Globals::kUsage;
  }
  for (std::string line; std::getline(in, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    // Flushed, so that another program can hold a conversation through pipes.
    out << to_json(render_line(line, *tokenizer)) << std::endl;
    if (!out) {
      errors << "deepinfer: render: standard output cannot be written\n";
      return Globals::kFailed;
    }
  }
  return Globals::kDone;
}

}  // namespace deepinfer
