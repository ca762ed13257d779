#include "verify/verify_chat.h"

#include <algorithm>
#include <cstdio>

#include "base/file.h"
#include "deepinfer/chat_format.h"
#include "text/json.h"
#include "text/request_json.h"

namespace deepinfer {
namespace {

template <typename List>
size_t differences(const List& a, const List& b) {
  const size_t both = std::min(a.size(), b.size());
  size_t count = std::max(a.size(), b.size()) - both;
  for (size_t i = 0; i < both; ++i) count += a[i] == b[i] ? 0 : 1;
  return count;
}

// A case without what it expects is a request object.
std::string request_of(const JsonValue& golden) {
  std::string request = "{";
  for (const JsonValue::Member& member : golden.members()) {
    if (member.key == "kind" || member.key == "prompt" || member.key == "special_ranges") continue;
    if (request.size() > 1) request += ", ";
    append_json_string(request, member.key);
    request += ": ";
    member.value.dump_to(request);
  }
  return request + "}";
}

Result<RenderedPrompt> render(const std::string& request_text) {
  DI_ASSIGN_OR_RETURN(const Request request, read_request(request_text, {}));
  return ChatFormat::render(request.conversation);
}

Result<RenderedPrompt> expected_prompt(const JsonValue& golden, const std::string& where) {
  const JsonValue* prompt = golden.find("prompt");
  const JsonValue* ranges = golden.find("special_ranges");
  if (prompt == nullptr || !prompt->is(JsonValue::Kind::string))
    return invalid("{}: prompt: a string is expected", where);
  if (ranges == nullptr || !ranges->is(JsonValue::Kind::array)) {
    return invalid("{}: special_ranges: a list is expected", where);
  }
  RenderedPrompt out;
  out.text = prompt->string();
  for (const JsonValue& range : ranges->items()) {
    const auto at = [&](size_t i) {
      return i < range.items().size() ? range.items()[i].as_uint64() : std::optional<uint64_t>();
    };
    if (range.items().size() != 2 || !at(0) || !at(1)) {
      return invalid("{}: special_ranges: {} is not a pair of offsets", where, range.dump());
    }
    out.special_ranges.push_back({static_cast<size_t>(*at(0)), static_cast<size_t>(*at(1))});
  }
  return out;
}

void compare(const std::string& name, const Result<RenderedPrompt>& found, const RenderedPrompt& expected,
             Reporter& reporter) {
  // A prompt that was refused differs everywhere.
  size_t bytes = expected.text.size(), ranges = expected.special_ranges.size();
  if (!found.ok()) {
    std::fprintf(stderr, "%s: %s\n", name.c_str(), found.status().message().c_str());
  } else {
    bytes = differences(found->text, expected.text);
    ranges = differences(found->special_ranges, expected.special_ranges);
    if (bytes > 0) {
      const size_t shorter = std::min(found->text.size(), expected.text.size());
      size_t first = 0;
      while (first < shorter && found->text[first] == expected.text[first]) ++first;
      std::fprintf(stderr, "%s: the prompt differs from byte %zu on\n", name.c_str(), first);
    }
  }
  reporter.row({name, "prompt", "different bytes", static_cast<double>(bytes), 0, found.ok() && bytes == 0});
  if (reporter.stopped()) return;
  reporter.row({name, "special_ranges", "different", static_cast<double>(ranges), 0, found.ok() && ranges == 0});
}

Status verify_file(const std::string& path, Reporter& reporter) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path));
  size_t line = 0;
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string where = fmt::format("{}:{}", path, ++line);
    const auto golden = JsonValue::parse(std::string_view(text).substr(begin, end - begin));
    if (!golden.ok()) return invalid("{}: {}", where, golden.status().message());
    const JsonValue* kind = golden->find("kind");
    const std::string kind_name = kind == nullptr ? "" : kind->string();
    if (kind_name != "encode" && kind_name != "parse") {
      return invalid("{}: kind: '{}'; accepted are encode, parse", where, kind_name);
    }
    const std::string name = fmt::format("chat/{}/{}", kind_name, line);
    if (!reporter.wants(name)) continue;
    if (kind_name == "parse") {
      reporter.skip(name, "answer parsing is not part of this version");
      continue;
    }
    DI_ASSIGN_OR_RETURN(const RenderedPrompt expected, expected_prompt(*golden, where));
    compare(name, render(request_of(*golden)), expected, reporter);
    if (reporter.stopped()) return {};
  }
  return {};
}

}  // namespace

Status verify_chat(const std::string& dir, Reporter& reporter) {
  const std::string index = dir + "/golden.json";
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(index));
  const auto golden = JsonValue::parse(text);
  if (!golden.ok()) return invalid("{}: {}", index, golden.status().message());
  const JsonValue* files = golden->find("files");
  if (files == nullptr || !files->is(JsonValue::Kind::array) || files->items().empty()) {
    return invalid("{}: files: a list of file names is expected", index);
  }
  for (const JsonValue& file : files->items()) {
    const std::string& name = file.string();
    if (name.empty() || name.find('/') != std::string::npos) {
      return invalid("{}: files: {} is not a name of a file in this directory", index, file.dump());
    }
    DI_RETURN_IF_ERROR(verify_file(dir + "/" + name, reporter));
    if (reporter.stopped()) return {};
  }
  return {};
}

}  // namespace deepinfer
