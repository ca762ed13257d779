#include "text/added_tokens.h"

namespace deepinfer {

int32_t AddedTokenMatcher::child(int32_t node, unsigned char byte) const {
  int32_t at = nodes_[node].first_child;
  while (at >= 0 && nodes_[at].byte != byte) at = nodes_[at].sibling;
  return at;
}

void AddedTokenMatcher::add(std::string_view content, int32_t id) {
  begins_[static_cast<unsigned char>(content[0])] = true;
  int32_t node = 0;
  for (const char c : content) {
    int32_t next = child(node, static_cast<unsigned char>(c));
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.push_back({-1, nodes_[node].first_child, -1, static_cast<unsigned char>(c)});
      nodes_[node].first_child = next;
    }
    node = next;
  }
  nodes_[node].id = id;
}

AddedTokenMatcher::Match AddedTokenMatcher::at(std::string_view text, size_t begin) const {
  Match match;
  int32_t node = 0;
  for (size_t i = begin; i < text.size(); ++i) {
    node = child(node, static_cast<unsigned char>(text[i]));
    if (node < 0) break;
    if (nodes_[node].id >= 0) match = {begin, i + 1, nodes_[node].id};
  }
  return match;
}

AddedTokenMatcher::Match AddedTokenMatcher::find(std::string_view text, size_t from) const {
  for (size_t begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<unsigned char>(text[begin])]) continue;
    if (const Match match = at(text, begin); match.id >= 0) return match;
  }
  return {text.size(), text.size(), -1};
}

}  // namespace deepinfer
