#include "text/json_document.h"

namespace deepinfer {
namespace {

using Json = nlohmann::json;
constexpr size_t kMaxDepth = 16;

// Where the parser is: in the part that is kept as a document, or inside one of the two lists.
enum class Place { document, vocab, merges, pair };

class Handler : public nlohmann::json_sax<Json> {
 public:
  Handler(TokenizerDocument& out, std::string_view where) : out_(out), where_(where) {}

  Status take_status() { return std::move(status_); }

  bool null() override { return scalar(Json(nullptr)); }
  bool boolean(bool v) override { return scalar(Json(v)); }
  bool number_integer(int64_t v) override { return place_ == Place::vocab ? entry(v) : scalar(Json(v)); }
  bool number_unsigned(uint64_t v) override {
    if (place_ == Place::vocab) return entry(v > INT64_MAX ? INT64_MAX : static_cast<int64_t>(v));
    return scalar(Json(v));
  }
  bool number_float(double v, const std::string&) override { return scalar(Json(v)); }
  bool binary(Json::binary_t&) override { return fail("binary values are not JSON"); }

  bool string(std::string& v) override {
    if (place_ == Place::pair) {
      if (pair_size_ == 2) return fail("model.merges[{}] has more than two parts", out_.merges.size());
      pair_[pair_size_++] = std::move(v);
      return true;
    }
    if (place_ == Place::merges) {
      const size_t space = v.find(' ');
      if (space == v.npos || v.find(' ', space + 1) != v.npos) {
        return fail("model.merges[{}] is {}, accepted: two tokens with one space between them", out_.merges.size(),
                    json_quote(v));
      }
      out_.merges.emplace_back(v.substr(0, space), v.substr(space + 1));
      return true;
    }
    return scalar(Json(std::move(v)));
  }

  bool start_object(size_t) override {
    if (place_ != Place::document) return fail_entry("an object");
    if (stack_.size() == 2 && path_ == "model" && key_ == "vocab") {
      place_ = Place::vocab;
      out_.has_vocab = true;
      return true;
    }
    return open(Json::object());
  }
  bool key(std::string& v) override {
    if (place_ == Place::vocab) {
      key_ = std::move(v);
      return true;
    }
    const bool repeated =
        stack_.back()->contains(v) || (stack_.size() == 2 && path_ == "model" &&
                                       ((v == "vocab" && out_.has_vocab) || (v == "merges" && out_.has_merges)));
    if (repeated) return fail("field {} stands twice in {}", json_quote(v), path_.empty() ? "the file" : path_);
    key_ = std::move(v);
    return true;
  }
  bool end_object() override {
    if (place_ == Place::vocab) {
      place_ = Place::document;
      return true;
    }
    close();
    return true;
  }

  bool start_array(size_t) override {
    if (place_ == Place::merges) {
      place_ = Place::pair;
      pair_size_ = 0;
      return true;
    }
    if (place_ != Place::document) return fail_entry("an array");
    if (stack_.size() == 2 && path_ == "model" && key_ == "merges") {
      place_ = Place::merges;
      out_.has_merges = true;
      return true;
    }
    return open(Json::array());
  }
  bool end_array() override {
    if (place_ == Place::pair) {
      if (pair_size_ != 2) return fail("model.merges[{}] has {} parts, accepted: 2", out_.merges.size(), pair_size_);
      out_.merges.emplace_back(std::move(pair_[0]), std::move(pair_[1]));
      place_ = Place::merges;
    } else if (place_ == Place::merges) {
      place_ = Place::document;
    } else {
      close();
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& why) override {
    // The library's text is "[json.exception.parse_error.101] parse error at ...: reason"; the reason is what a reader
    // needs.
    std::string_view text = why.what();
    if (const size_t at = text.find("] "); at != text.npos) text.remove_prefix(at + 2);
    return fail("not valid JSON at byte {}: {}", position, text);
  }

 private:
  template <typename... Args>
  bool fail(fmt::format_string<Args...> text, Args&&... args) {
    status_ = invalid("{}: {}", where_, fmt::format(text, std::forward<Args>(args)...));
    return false;
  }
  bool fail_entry(std::string_view found) {
    if (place_ == Place::vocab) return fail("model.vocab[{}] is {}, accepted: an id", json_quote(key_), found);
    return fail("model.merges[{}] holds {}, accepted: two strings", out_.merges.size(), found);
  }
  bool entry(int64_t id) {
    out_.vocab.emplace_back(std::move(key_), id);
    return true;
  }

  bool scalar(Json&& value) {
    if (place_ != Place::document)
      return fail_entry(value.is_string() ? json_quote(value.get_ref<std::string&>()) : value.dump());
    if (stack_.empty()) {
      out_.rest = std::move(value);
    } else {
      add(std::move(value));
    }
    return true;
  }
  Json* add(Json&& value) {
    Json& parent = *stack_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }
  bool open(Json&& value) {
    if (stack_.size() == kMaxDepth) return fail("nested deeper than {} levels, in {}", kMaxDepth, path_);
    lengths_.push_back(path_.size());
    if (stack_.empty()) {
      out_.rest = std::move(value);
      stack_.push_back(&out_.rest);
      return true;
    }
    Json* parent = stack_.back();
    if (parent->is_array()) {
      path_ += fmt::format("[{}]", parent->size());
    } else {
      path_ += (path_.empty() ? "" : ".") + key_;
    }
    stack_.push_back(add(std::move(value)));
    return true;
  }
  void close() {
    stack_.pop_back();
    path_.resize(lengths_.back());
    lengths_.pop_back();
  }

  TokenizerDocument& out_;
  std::string_view where_;
  Status status_;
  Place place_ = Place::document;
  std::vector<Json*> stack_;  // open objects and arrays; a child is complete before its parent grows again
  std::string path_;          // of the innermost one: "pre_tokenizer.pretokenizers[0]"
  std::vector<size_t> lengths_;
  std::string key_;
  std::string pair_[2];
  size_t pair_size_ = 0;
};

}  // namespace

std::string json_quote(std::string_view text) {
  constexpr size_t kLongest = 80;
  const std::string shown = Json(text.substr(0, kLongest)).dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() > kLongest ? shown + "..." : shown;
}

Result<TokenizerDocument> parse_tokenizer_document(std::string_view json, std::string_view where) {
  TokenizerDocument document;
  Handler handler(document, where);
  if (!Json::sax_parse(json.begin(), json.end(), &handler)) {
    Status status = handler.take_status();
    return status.ok() ? invalid("{}: not valid JSON", where) : status;
  }
  return document;
}

}  // namespace deepinfer
