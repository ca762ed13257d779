#include "cli/tokenize_command.h"

#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/json_line.h"
#include "cli/token_ids.h"
#include "deepinfer/tokenizer.h"

namespace deepinfer {
namespace {

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text, bool no_special) {
  return no_special ? tokenizer.encode_plain(text) : tokenizer.encode(text);
}

// One line of the filter.
Result<std::string> convert(const Tokenizer& tokenizer, const std::string& line, bool no_special) {
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
  if (!json.is_object()) return invalid("not a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key != "text" && key != "ids") return invalid("unknown field '{}': accepted are text, ids", key);
  }
  if (json.size() != 1) return invalid("exactly one of text and ids is expected");
  if (json.contains("text")) {
    if (!json["text"].is_string()) return invalid("text: a string is expected");
    return JsonLine().raw("ids", json_list(encode(tokenizer, json["text"].get<std::string>(), no_special))).str();
  }
  const nlohmann::json& list = json["ids"];
  if (!list.is_array()) return invalid("ids: a list of token ids is expected");
  std::vector<int32_t> ids;
  for (const nlohmann::json& item : list) {
    if (!item.is_number_integer() || item.get<double>() < 0 || item.get<double>() > INT32_MAX) {
      return invalid("ids[{}]: {} is no token id", ids.size(), item.dump());
    }
    ids.push_back(item.get<int32_t>());
  }
  DI_ASSIGN_OR_RETURN(const std::string text, tokenizer.decode(ids));
  return JsonLine().add("text", text).str();
}

}  // namespace

void add_tokenize_options(CLI::App& command, TokenizeOptions& options) {
  command.add_option("TEXT", options.text, "text to encode");
  command.add_option("--decode", options.decode, "ids to decode: 1,2,3");
  command.add_flag("--no-special", options.no_special, "text only: spelled control tokens stay text");
  command.add_option("--tokenizer", options.tokenizer, "a tokenizer.json (default: the model's)");
}

int run_tokenize(const TokenizeOptions& options, const Globals& globals) {
  std::string path = options.tokenizer;
  if (path.empty()) path = (globals.model_dir.empty() ? bundled_model_dir() : globals.model_dir) + "/tokenizer.json";
  const Result<Tokenizer> tokenizer = Tokenizer::open(path);
  if (!tokenizer.ok()) return report(tokenizer.status());
  if (options.text.has_value() && options.decode.has_value())
    return report(invalid("tokenize: TEXT and --decode exclude each other"));
  if (options.decode.has_value()) {
    const Result<std::vector<int32_t>> ids = parse_token_ids("--decode", *options.decode);
    if (!ids.ok()) return report(ids.status());
    const Result<std::string> text = tokenizer->decode(*ids);
    if (!text.ok()) return report(text.status());
    std::cout << (globals.json ? JsonLine().add("text", *text).str() : *text) << "\n";
    return Globals::kDone;
  }
  if (options.text.has_value()) {
    const std::vector<int32_t> ids = encode(*tokenizer, *options.text, options.no_special);
    if (globals.json) {
      std::vector<std::string> pieces;
      for (const int32_t id : ids) pieces.emplace_back(tokenizer->token_bytes(id));
      std::cout << JsonLine().raw("ids", json_list(ids)).raw("pieces", json_list(pieces)).str() << "\n";
    } else {
      for (const int32_t id : ids) std::cout << fmt::format("{:>7}  {}\n", id, quoted_json(tokenizer->token_bytes(id)));
    }
    return Globals::kDone;
  }
  if (!globals.json) return report(invalid("tokenize: TEXT or --decode is needed (or --json to read JSON lines)"));
  std::string line;
  while (std::getline(std::cin, line)) {
    const Result<std::string> result = convert(*tokenizer, line, options.no_special);
    std::cout << (result.ok() ? *result : JsonLine().add("error", result.status().message()).str()) << "\n";
  }
  return Globals::kDone;
}

}  // namespace deepinfer
