#include "text/tokenizer_json.h"

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "text/added_tokens.h"
#include "text/json_document.h"
#include "text/unicode.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;

enum class Need {
  always,       // the file must have it
  with_parent,  // where its parent stands
  optional,
};

// One accepted setting: where it stands and what it may be.
struct Rule {
  std::string path;
  Need need;
  std::vector<Json> accepted;
};

constexpr const char* kDigits = R"(\p{N}{1,3})";
constexpr const char* kCjkRuns = "[一-龥\u3040-ゟ゠-ヿ]+";
constexpr const char* kWords =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
    "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";

std::vector<Rule> make_rules() {
  const std::vector<Json> any_bool = {true, false};
  std::vector<Rule> rules = {
      {"version", Need::always, {"1.0"}},
      {"truncation", Need::optional, {nullptr}},
      {"padding", Need::optional, {nullptr}},
      {"normalizer", Need::optional, {nullptr}},
      {"normalizer.type", Need::with_parent, {"Sequence"}},
      {"normalizer.normalizers", Need::with_parent, {Json::array()}},
      {"pre_tokenizer.type", Need::always, {"Sequence"}},
      {"post_processor", Need::optional, {nullptr}},
      {"post_processor.type", Need::with_parent, {"ByteLevel"}},
      {"decoder.type", Need::always, {"ByteLevel"}},
      {"model.type", Need::always, {"BPE"}},
      {"model.dropout", Need::optional, {nullptr}},
      {"model.unk_token", Need::optional, {nullptr}},
      {"model.continuing_subword_prefix", Need::optional, {nullptr}},
      {"model.end_of_word_suffix", Need::optional, {nullptr}},
      {"model.fuse_unk", Need::optional, {false}},
      {"model.byte_fallback", Need::optional, {false}},
      {"model.ignore_merges", Need::optional, {false}},
  };
  // Without offsets and with the regex switched off in the pre-tokenizer, these change nothing.
  for (const char* part : {"post_processor", "decoder"}) {
    for (const char* field : {"add_prefix_space", "trim_offsets", "use_regex"}) {
      rules.push_back({fmt::format("{}.{}", part, field), Need::optional, any_bool});
    }
  }
  int index = 0;
  for (const char* regex : {kDigits, kCjkRuns, kWords}) {
    const std::string at = fmt::format("pre_tokenizer.pretokenizers[{}]", index++);
    rules.push_back({at + ".type", Need::always, {"Split"}});
    rules.push_back({at + ".pattern.Regex", Need::always, {regex}});
    rules.push_back({at + ".behavior", Need::always, {"Isolated"}});
    rules.push_back({at + ".invert", Need::always, {false}});
  }
  const std::string last = "pre_tokenizer.pretokenizers[3]";
  rules.push_back({last + ".type", Need::always, {"ByteLevel"}});
  rules.push_back({last + ".add_prefix_space", Need::always, {false}});
  rules.push_back({last + ".trim_offsets", Need::optional, any_bool});
  rules.push_back({last + ".use_regex", Need::always, {false}});
  return rules;
}

std::string shown(const Json& value) {
  if (value.is_string()) return json_quote(value.get_ref<const std::string&>());
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 80) + "..." : text;
}

std::string join(const std::vector<Json>& values) {
  std::string text;
  for (const Json& value : values) text += (text.empty() ? "" : " or ") + shown(value);
  return text;
}

// All settings of a document as path -> value; empty containers are values.
using Settings = std::vector<std::pair<std::string, Json>>;
void flatten(const Json& node, const std::string& path, Settings& out) {
  if (!node.is_structured() || node.empty()) {
    out.emplace_back(path, node);
  } else if (node.is_object()) {
    for (const auto& [name, value] : node.items()) flatten(value, path.empty() ? name : path + "." + name, out);
  } else {
    for (size_t i = 0; i < node.size(); ++i) flatten(node[i], fmt::format("{}[{}]", path, i), out);
  }
}

bool lies_in(std::string_view path, std::string_view parent) {
  return path.size() > parent.size() && path.substr(0, parent.size()) == parent &&
         (path[parent.size()] == '.' || path[parent.size()] == '[');
}

// One setting of the file against the rules. An empty object is a container whose fields are missing, which is seen
// later.
Status check_setting(const std::string& path, const Json& value, const std::vector<Rule>& rules,
                     std::string_view where) {
  std::string accepted;
  for (const Rule& rule : rules) {
    if (rule.path == path) {
      for (const Json& a : rule.accepted) {
        if (a == value) return {};
      }
      accepted = join(rule.accepted);
    } else if (lies_in(rule.path, path)) {
      const bool array = rule.path[path.size()] == '[';
      if (value.is_object() && !array) return {};
      accepted += accepted.empty() ? "" : accepted.ends_with("its fields") ? "" : " or ";
      if (!accepted.ends_with("its fields"))
        accepted += array ? "an array with its fields" : "an object with its fields";
    }
  }
  if (accepted.empty())
    return error(Code::unsupported, "{}: {} = {}: there is no such setting", where, path, shown(value));
  return error(Code::unsupported, "{}: {} is {}, accepted: {}", where, path, shown(value), accepted);
}

Status check_settings(const Json& document, std::string_view where) {
  const std::vector<Rule> rules = make_rules();
  Settings settings;
  flatten(document, "", settings);
  for (const auto& [path, value] : settings) DI_RETURN_IF_ERROR(check_setting(path, value, rules, where));
  for (const Rule& rule : rules) {
    const std::string_view parent = std::string_view(rule.path).substr(0, rule.path.rfind('.'));
    bool needed = rule.need == Need::always, found = false;
    for (const auto& [path, value] : settings) {
      found |= path == rule.path;
      needed |= rule.need == Need::with_parent && (lies_in(path, parent) || (path == parent && value.is_object()));
    }
    if (needed && !found) return invalid("{}: {} is missing, accepted: {}", where, rule.path, join(rule.accepted));
  }
  return {};
}

// One entry of added_tokens.
Status read_added(const Json& entry, const std::string& at, AddedToken& out) {
  if (!entry.is_object()) return invalid("{} is {}, accepted: an object", at, shown(entry));
  for (const auto& [name, value] : entry.items()) {
    if (name == "id") {
      if (!value.is_number_unsigned() || value.get<uint64_t>() >= Bpe::kMaxTokens) {
        return invalid("{}.id is {}, accepted: 0 to {}", at, shown(value), Bpe::kMaxTokens - 1);
      }
      out.id = static_cast<int32_t>(value.get<uint64_t>());
    } else if (name == "content") {
      if (!value.is_string() || value.get_ref<const std::string&>().empty() ||
          value.get_ref<const std::string&>().size() > AddedTokenMatcher::kMaxBytes) {
        return invalid("{}.content is {}, accepted: a string of 1 to {} bytes", at, shown(value),
                       AddedTokenMatcher::kMaxBytes);
      }
      out.content = value.get<std::string>();
    } else if (name == "normalized" || name == "special") {
      if (!value.is_boolean()) return invalid("{}.{} is {}, accepted: true or false", at, name, shown(value));
      (name == "special" ? out.special : out.normalized) = value.get<bool>();
    } else if (name == "single_word" || name == "lstrip" || name == "rstrip") {
      if (value != Json(false)) return error(Code::unsupported, "{}.{} is {}, accepted: false", at, name, shown(value));
    } else {
      return error(Code::unsupported, "{}.{} = {}: there is no such setting", at, name, shown(value));
    }
  }
  for (const char* name : {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}) {
    if (!entry.contains(name)) return invalid("{}.{} is missing", at, name);
  }
  return {};
}

using IdOf = std::unordered_map<std::string_view, int32_t>;

// Every id of the vocabulary and of the added tokens, each used once, none left out; fills spec.tokens. `ids`: the
// vocabulary.
Status place_tokens(const TokenizerDocument& document, std::string_view where, TokenizerSpec& spec, IdOf& ids) {
  std::vector<std::string_view> text_of;  // id -> spelling, empty where there is none
  const auto claim = [&text_of](int64_t id, std::string_view text) {
    if (static_cast<size_t>(id) >= text_of.size()) text_of.resize(id + 1);
    return std::exchange(text_of[id], text);  // what had the id before
  };
  ids.reserve(document.vocab.size());
  for (const auto& [text, id] : document.vocab) {
    if (id < 0 || id >= static_cast<int64_t>(Bpe::kMaxTokens)) {
      return invalid("{}: model.vocab[{}] is {}, accepted: 0 to {}", where, json_quote(text), id, Bpe::kMaxTokens - 1);
    }
    if (text.empty()) return invalid("{}: model.vocab has an empty token, id {}", where, id);
    if (const auto other = claim(id, text); !other.empty()) {
      return invalid("{}: model.vocab gives id {} to {} and to {}", where, id, json_quote(other), json_quote(text));
    }
    if (!ids.emplace(text, static_cast<int32_t>(id)).second) {
      return invalid("{}: model.vocab has {} twice", where, json_quote(text));
    }
  }
  std::unordered_set<std::string_view> contents;
  std::unordered_set<int32_t> added_ids;
  for (size_t i = 0; i < spec.added.size(); ++i) {
    const AddedToken& token = spec.added[i];
    if (!contents.insert(token.content).second) {
      return invalid("{}: added_tokens[{}].content {} stands there twice", where, i, json_quote(token.content));
    }
    if (!added_ids.insert(token.id).second)
      return invalid("{}: added_tokens[{}].id {} stands there twice", where, i, token.id);
    const auto in_vocab = ids.find(token.content);
    if (in_vocab != ids.end() && in_vocab->second != token.id) {
      return invalid("{}: added_tokens[{}].id is {}, but model.vocab[{}] is {}", where, i, token.id,
                     json_quote(token.content), in_vocab->second);
    }
    if (const auto other = claim(token.id, token.content); !other.empty() && other != token.content) {
      return invalid("{}: added_tokens[{}].id is {}, which model.vocab gives to {}", where, i, token.id,
                     json_quote(other));
    }
  }
  spec.tokens.resize(text_of.size());
  for (size_t id = 0; id < text_of.size(); ++id) {
    if (text_of[id].empty()) return invalid("{}: no token has id {}, accepted: every id from 0 on", where, id);
    if (added_ids.count(static_cast<int32_t>(id)) > 0) continue;
    if (!byte_level_bytes(text_of[id], spec.tokens[id])) {
      return invalid(
          "{}: model.vocab[{}] (id {}) has a character outside the byte-level alphabet and is no added token", where,
          json_quote(text_of[id]), id);
    }
  }
  for (int byte = 0; byte < 256; ++byte) {
    std::string text;
    append_utf8(byte_level_char(static_cast<uint8_t>(byte)), text);
    const auto at = ids.find(text);
    if (at == ids.end() || spec.tokens[at->second].empty()) {
      return invalid("{}: model.vocab has no token for the byte {:#04x}, {}", where, byte, json_quote(text));
    }
  }
  return {};
}

Status place_merges(const TokenizerDocument& document, std::string_view where, const IdOf& ids, TokenizerSpec& spec) {
  if (document.merges.size() > Bpe::kMaxMerges) {
    return invalid("{}: model.merges has {} entries, accepted: up to {}", where, document.merges.size(),
                   Bpe::kMaxMerges);
  }
  std::unordered_set<uint64_t> pairs;
  pairs.reserve(document.merges.size());
  spec.merges.reserve(document.merges.size());
  for (size_t i = 0; i < document.merges.size(); ++i) {
    const auto& [left, right] = document.merges[i];
    int32_t found[3];
    const std::string whole = left + right;
    int n = 0;
    for (const std::string* text : {&left, &right, &whole}) {
      const auto at = ids.find(*text);
      if (at == ids.end())
        return invalid("{}: model.merges[{}]: {} is not in model.vocab", where, i, json_quote(*text));
      if (spec.tokens[at->second].empty()) {
        return invalid("{}: model.merges[{}]: {} is an added token, which merging cannot give", where, i,
                       json_quote(*text));
      }
      found[n++] = at->second;
    }
    if (!pairs.insert(static_cast<uint64_t>(found[0]) << 32 | static_cast<uint32_t>(found[1])).second) {
      return invalid("{}: model.merges[{}]: {} and {} stand there twice", where, i, json_quote(left),
                     json_quote(right));
    }
    spec.merges.push_back({found[0], found[1], found[2]});
  }
  return {};
}

}  // namespace

Result<TokenizerSpec> read_tokenizer_json(std::string_view json, std::string_view where) {
  DI_ASSIGN_OR_RETURN(TokenizerDocument document, parse_tokenizer_document(json, where));
  if (!document.rest.is_object()) return invalid("{}: is {}, accepted: an object", where, shown(document.rest));
  TokenizerSpec spec;
  const auto added = document.rest.find("added_tokens");
  if (added == document.rest.end()) return invalid("{}: added_tokens is missing", where);
  if (!added->is_array()) return invalid("{}: added_tokens is {}, accepted: an array", where, shown(*added));
  for (size_t i = 0; i < added->size(); ++i) {
    DI_RETURN_IF_ERROR(
        read_added((*added)[i], fmt::format("{}: added_tokens[{}]", where, i), spec.added.emplace_back()));
  }
  document.rest.erase(added);
  DI_RETURN_IF_ERROR(check_settings(document.rest, where));
  if (!document.has_vocab) return invalid("{}: model.vocab is missing", where);
  if (!document.has_merges) return invalid("{}: model.merges is missing", where);
  IdOf ids;
  DI_RETURN_IF_ERROR(place_tokens(document, where, spec, ids));
  DI_RETURN_IF_ERROR(place_merges(document, where, ids, spec));
  return spec;
}

}  // namespace deepinfer
