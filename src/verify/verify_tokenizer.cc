#include "verify/verify_tokenizer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/file.h"
#include "base/sha256.h"
#include "deepinfer/tokenizer.h"
#include "text/engram_map.h"
#include "text/unicode.h"
#include "verify/tokenizer_cases.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

// Places at which two sequences differ; the longer one's rest counts.
template <typename A, typename B>
size_t differences(const A& a, const B& b) {
  const size_t both = std::min(a.size(), b.size());
  size_t count = std::max(a.size(), b.size()) - both;
  for (size_t i = 0; i < both; ++i) count += a[i] != b[i];
  return count;
}

class Checker {
 public:
  Checker(const Tokenizer& tokenizer, std::string prefix, Reporter& reporter)
      : tokenizer_(tokenizer), prefix_(std::move(prefix)), reporter_(reporter) {}

  bool wants(const std::string& name) const { return reporter_.wants(prefix_ + name) || reporter_.wants(name); }

  void check(const TokenizerCase& c) {
    name_ = prefix_ + c.name;
    if (c.text) check_text(*c.text);
    if (c.decode) check_decode(*c.decode);
  }
  Status check_sweeps(const Json& sweeps, const std::string& path);
  Status check_engram(const Json& golden, const std::string& path);

 private:
  void row(const char* level, std::string quantity, size_t different) {
    reporter_.row({name_, level, std::move(quantity), static_cast<double>(different), 0, different == 0});
  }

  void numbers(const char* level, const std::vector<int64_t>& found, const std::vector<int64_t>& expected) {
    const size_t different = differences(found, expected);
    row(level, "different", different);
    if (different == 0) return;
    const size_t both = std::min(found.size(), expected.size());
    size_t first = 0;
    while (first < both && found[first] == expected[first]) ++first;
    const auto shown = [first](const auto& list) {
      return first < list.size() ? std::to_string(list[first]) : "the end";
    };
    std::fprintf(stderr, "%s: %s: number %zu is %s, expected %s\n", name_.c_str(), level, first, shown(found).c_str(),
                 shown(expected).c_str());
  }

  // A decoded text; one that cannot be decoded differs in every byte.
  void text(const char* quantity, const Result<std::string>& found, const std::string& expected) {
    if (!found.ok()) std::fprintf(stderr, "%s: %s\n", name_.c_str(), found.status().message().c_str());
    row("decode", quantity, found.ok() ? differences(*found, expected) : expected.size() + 1);
  }

  void check_text(const TextCase& c) {
    const std::vector<int32_t> ids = tokenizer_.encode(c.text), plain = tokenizer_.encode_plain(c.text);
    const std::vector<size_t> pieces = tokenizer_.pieces(c.text);
    numbers("ids", {ids.begin(), ids.end()}, c.ids);
    numbers("ids_plain", {plain.begin(), plain.end()}, c.ids_plain);
    numbers("pieces", {pieces.begin(), pieces.end()}, c.pieces);
    text("text of ids", tokenizer_.decode(ids), c.decoded.value_or(c.text));
    text("text of ids_plain", tokenizer_.decode(plain), c.text);
    std::string streamed;
    StreamDecoder stream(tokenizer_);
    for (const int32_t id : ids) {
      const auto part = stream.push(id);
      if (part.ok()) streamed += *part;
    }
    streamed += stream.finish();
    row("stream", "bytes of text", differences(streamed, c.decoded.value_or(c.text)));
  }

  void check_decode(const DecodeCase& c) {
    std::string bytes;
    for (const int32_t id : c.ids) bytes += tokenizer_.token_bytes(id);
    row("decode", "bytes", differences(bytes, c.bytes));
    text("text", tokenizer_.decode(c.ids), c.decoded);
    text("text without special", tokenizer_.decode(c.ids, true), c.decoded_skip_special.value_or(c.decoded));

    // Text may come later than in the golden stream, but no other text, and in the end all of it.
    StreamDecoder stream(tokenizer_);
    std::string found, expected;
    size_t wrong = c.stream.size() != c.ids.size() + 1;
    for (size_t i = 0; i < std::min(c.stream.size(), c.ids.size() + 1); ++i) {
      const bool last = i == c.ids.size();
      const auto part = last ? Result<std::string>(stream.finish()) : stream.push(c.ids[i]);
      expected += c.stream[i];
      if (part.ok()) found += *part;
      wrong += !part.ok() || (last ? found != expected : !expected.starts_with(found));
    }
    row("stream", "steps with other text", wrong);
  }

  // The digest of texts, as sweeps.json has it.
  class Digest {
   public:
    void add(const Tokenizer& tokenizer, std::string_view text) {
      std::vector<int32_t> words = tokenizer.encode_plain(text);
      words.insert(words.begin(), static_cast<int32_t>(words.size()));
      hash_.update(words.data(), words.size() * sizeof(int32_t));  // little-endian hosts only, as the whole engine
    }
    std::string finish() { return hash_.finish_hex().substr(0, 16); }

   private:
    Sha256 hash_;
  };

  std::string code_point_digest(uint32_t begin, const std::string& format) const;
  std::string vocabulary_digest(int32_t begin, size_t times) const;
  void digest_row(const std::string& quantity, const std::vector<std::string>& found,
                  const std::vector<std::string>& expected) {
    row("sweeps", quantity, differences(found, expected));
    for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
      if (found[i] != expected[i]) {
        std::fprintf(stderr, "%s: %s: block %zu differs first\n", name_.c_str(), quantity.c_str(), i);
        break;
      }
    }
  }

  const Tokenizer& tokenizer_;
  std::string prefix_;
  Reporter& reporter_;
  std::string name_;  // of the case at hand
};

std::string Checker::code_point_digest(uint32_t begin, const std::string& format) const {
  Digest digest;
  for (uint32_t c = begin; c < begin + 4096; ++c) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    for (size_t i = 0; i < format.size();) {
      const size_t length = format.compare(i, 2, "{}") == 0 ? 2 : format.compare(i, 3, "{0}") == 0 ? 3 : 0;
      if (length > 0) {
        append_utf8(c, text);
        i += length;
      } else {
        text += format[i++];
      }
    }
    digest.add(tokenizer_, text);
  }
  return digest.finish();
}

std::string Checker::vocabulary_digest(int32_t begin, size_t times) const {
  Digest digest;
  for (int32_t id = begin; id < std::min(begin + 1024, tokenizer_.vocab_size()); ++id) {
    const std::string_view bytes = tokenizer_.token_bytes(id);
    std::string repaired, text;
    append_repaired(bytes, repaired);
    if (repaired != bytes) continue;
    for (size_t i = 0; i < times; ++i) text += bytes;
    digest.add(tokenizer_, text);
  }
  return digest.finish();
}

Result<std::vector<std::string>> strings(const Json& list, const std::string& at) {
  if (!list.is_array()) return invalid("{} is not a list", at);
  std::vector<std::string> out;
  for (const Json& item : list) {
    if (!item.is_string()) return invalid("{} holds {}, accepted: texts", at, item.dump().substr(0, 40));
    out.push_back(item.get<std::string>());
  }
  return out;
}

Status Checker::check_sweeps(const Json& sweeps, const std::string& path) {
  if (!sweeps.is_object()) return invalid("{}: no object for this tokenizer", path);
  for (const auto& [kind, content] : sweeps.items()) {
    if (!content.is_object()) return invalid("{}: {} is not an object", path, kind);
    const std::string case_name = "sweeps/" + kind;
    if (!wants(case_name)) continue;
    name_ = prefix_ + case_name;
    if (kind == "code_points") {
      for (const auto& [format, digests] : content.items()) {
        DI_ASSIGN_OR_RETURN(const auto expected, strings(digests, path + ": " + kind));
        std::vector<std::string> found;
        for (uint32_t block = 0; block < 0x110000 / 4096; ++block)
          found.push_back(code_point_digest(block * 4096, format));
        digest_row(fmt::format("blocks of \"{}\"", format), found, expected);
      }
    } else if (kind == "short_strings") {
      if (!content.contains("alphabet") || !content["alphabet"].is_string() || !content.contains("blocks") ||
          !content["blocks"].is_object()) {
        return invalid("{}: short_strings has no alphabet or no blocks", path);
      }
      std::vector<std::string> alphabet;
      const std::string& letters = content["alphabet"].get_ref<const std::string&>();
      for (size_t i = 0; i < letters.size();) {
        const size_t length = decode_utf8(letters.data() + i, letters.size() - i).length;
        alphabet.push_back(letters.substr(i, length));
        i += length;
      }
      std::vector<std::string> found, expected;
      for (const std::string& first : alphabet) {
        if (!content["blocks"].contains(first) || !content["blocks"][first].is_string()) {
          return invalid("{}: short_strings has no block for a letter of its alphabet", path);
        }
        expected.push_back(content["blocks"][first].get<std::string>());
        Digest digest;
        std::vector<std::string> layer = {first};
        for (int more = 0; more <= 4; ++more) {
          std::vector<std::string> next;
          for (const std::string& text : layer) {
            digest.add(tokenizer_, text);
            for (const std::string& letter : alphabet) next.push_back(text + letter);
          }
          layer = std::move(next);
        }
        found.push_back(digest.finish());
      }
      digest_row("blocks", found, expected);
    } else if (kind == "vocabulary") {
      if (!content.contains("text") || !content["text"].is_string() || !content.contains("blocks")) {
        return invalid("{}: vocabulary has no text or no blocks", path);
      }
      const std::string& form = content["text"].get_ref<const std::string&>();
      if (form.empty() || form.find_first_not_of('t') != form.npos)
        return invalid("{}: vocabulary.text is \"{}\", accepted: t, tt, ..", path, form);
      DI_ASSIGN_OR_RETURN(const auto expected, strings(content["blocks"], path + ": vocabulary"));
      std::vector<std::string> found;
      for (int32_t id = 0; id < tokenizer_.vocab_size(); id += 1024)
        found.push_back(vocabulary_digest(id, form.size()));
      digest_row("blocks", found, expected);
    } else {
      return invalid("{}: unknown sweep {}", path, kind);
    }
    if (reporter_.stopped()) return {};
  }
  return {};
}

Status Checker::check_engram(const Json& golden, const std::string& path) {
  if (!wants("engram-map")) return {};
  name_ = prefix_ + "engram-map";
  for (const char* field : {"vocab_size", "classes", "first_64", "samples", "sha256_int32_le"}) {
    if (!golden.is_object() || !golden.contains(field)) return invalid("{}: {}{} is missing", path, prefix_, field);
  }
  if (!golden["vocab_size"].is_number_integer() || !golden["classes"].is_number_integer() ||
      !golden["first_64"].is_array() || !golden["samples"].is_array()) {
    return invalid("{}: a field of {} is of the wrong kind", path, prefix_);
  }
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> map,
                      engram_token_map(tokenizer_, golden["vocab_size"].get<int64_t>()));
  const int64_t classes = *std::max_element(map.begin(), map.end()) + 1;
  row("engram", "classes", static_cast<size_t>(std::abs(classes - golden["classes"].get<int64_t>())));
  size_t wrong = 0;
  for (size_t id = 0; id < golden["first_64"].size(); ++id)
    wrong += id >= map.size() || golden["first_64"][id] != map[id];
  row("engram", "first entries", wrong);
  wrong = 0;
  for (const Json& sample : golden["samples"]) {
    const bool pair =
        sample.is_array() && sample.size() == 2 && sample[0].is_number_unsigned() && sample[0] < map.size();
    wrong += !pair || sample[1] != map[sample[0].get<size_t>()];
  }
  row("engram", "samples", wrong);
  const std::string_view bytes(reinterpret_cast<const char*>(map.data()), map.size() * sizeof(int32_t));
  row("engram", "sha256", golden["sha256_int32_le"] != sha256_hex(bytes));
  return {};
}

Result<Json> read_json(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const std::string content, read_file(path));
  Json json = Json::parse(content, nullptr, false);
  if (!json.is_object()) return invalid("{}: not a JSON object", path);
  return json;
}

Status verify_one(const std::string& dir, const std::string& name, const std::string& path, Reporter& reporter) {
  DI_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::open(path));
  Checker checker(tokenizer, name + "/", reporter);
  DI_ASSIGN_OR_RETURN(const auto cases, read_tokenizer_cases(fmt::format("{}/cases-{}.jsonl", dir, name)));
  for (const TokenizerCase& c : cases) {
    if (!checker.wants(c.name)) continue;
    checker.check(c);
    if (reporter.stopped()) return {};
  }
  for (const char* file : {"sweeps.json", "engram-map.json"}) {
    const std::string at = fmt::format("{}/{}", dir, file);
    if (!std::filesystem::exists(at)) continue;  // a set of other texts has no map, a small one no sweeps
    DI_ASSIGN_OR_RETURN(const Json json, read_json(at));
    if (!json.contains(name)) continue;
    DI_RETURN_IF_ERROR(std::string_view(file) == "sweeps.json" ? checker.check_sweeps(json[name], at)
                                                               : checker.check_engram(json[name], at));
    if (reporter.stopped()) return {};
  }
  return {};
}

}  // namespace

Status verify_tokenizer(const std::string& dir, const std::string& tiny_path, const std::string& v41_path,
                        Reporter& reporter) {
  DI_RETURN_IF_ERROR(verify_one(dir, "tiny", tiny_path, reporter));
  if (reporter.stopped()) return {};
  if (!v41_path.empty()) return verify_one(dir, "v41", v41_path, reporter);
  // Only what was asked for is reported as skipped.
  DI_ASSIGN_OR_RETURN(const auto cases, read_tokenizer_cases(dir + "/cases-v41.jsonl"));
  size_t wanted = 0;
  const auto count = [&](const std::string& name) { wanted += reporter.wants("v41/" + name) || reporter.wants(name); };
  for (const TokenizerCase& c : cases) count(c.name);
  for (const char* name : {"sweeps/code_points", "sweeps/short_strings", "sweeps/vocabulary", "engram-map"})
    count(name);
  if (wanted > 0) {
    reporter.skip(fmt::format("{} cases of v41", wanted),
                  "no file of the released tokenizer was given (--tokenizer-v41 FILE)");
  }
  return {};
}

}  // namespace deepinfer
