// `deepinfer render`: request objects to prompts and token ids.
//
// Input    one request object a line (docs/requests.md); blank lines are passed over.
// Output   a line for each, in order: {"prompt","ids","special_ranges"}, or {"error"}. A request that gives token ids is shown as
//          the text that they decode to.
// Exit     0 when every line was answered, with a prompt or an error; 2 for a protocol or tokenizer that cannot be used, said on
//          `errors`; 1 if `out` cannot be written.
// Source   interfaces.md, table of commands.
#pragma once

#include <iosfwd>
#include <string>

#include "cli/globals.h"

namespace deepinfer {

struct RenderOptions {
  std::string protocol = "request";  // request; chat, responses, messages are refused by this version
  std::string tokenizer;             // a tokenizer.json; empty: the model's
};

void add_render_options(CLI::App& command, RenderOptions& options);
int run_render(const RenderOptions& options, const Globals& globals);

// The command over any streams; options.tokenizer is a path.
int render_lines(const RenderOptions& options, std::istream& in, std::ostream& out, std::ostream& errors);

}  // namespace deepinfer
