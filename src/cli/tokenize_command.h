// deepinfer tokenize: ids and pieces of a text, or the text of ids.
#pragma once

#include <optional>
#include <string>

#include "cli/globals.h"

namespace deepinfer {

struct TokenizeOptions {
  std::optional<std::string> text;
  std::optional<std::string> decode;  // ids, with commas between them
  bool no_special = false;            // text only: nothing is recognised as a control token
  std::string tokenizer;              // a tokenizer.json; empty: the model's
};

void add_tokenize_options(CLI::App& command, TokenizeOptions& options);
// With --json and neither TEXT nor --decode: JSON lines {"text"} or {"ids"} on stdin give {"ids"} or {"text"} on stdout, {"error"} for a bad line.
int run_tokenize(const TokenizeOptions& options, const Globals& globals);

}  // namespace deepinfer
