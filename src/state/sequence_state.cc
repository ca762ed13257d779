#include "state/sequence_state.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

namespace deepinfer {
namespace {

constexpr std::string_view kMagic = "DISTATE1";
constexpr int64_t kMaxLength = int64_t{1} << 40;

// docs/state-format.md. Everything behind `checksum` is under it.
struct Header {
  char magic[8];
  uint64_t checksum;
  // What must be equal for the bytes to mean the same.
  int64_t window, head_dim, layers, draft_stages, decoder_start, sources, ratio_2, kv_row_bytes, key_row_bytes,
      tail_live;
  int64_t length, window_begin;
};
constexpr size_t kChecked = offsetof(Header, window);

Header header_of(const StateLayout& layout, int64_t length, int64_t window_begin) {
  Header header{};
  std::memcpy(header.magic, kMagic.data(), kMagic.size());
  header.window = layout.window;
  header.head_dim = layout.head_dim;
  header.layers = layout.layers;
  header.draft_stages = layout.draft_stages;
  header.decoder_start = layout.decoder_start;
  header.sources = static_cast<int64_t>(layout.sources.size());
  for (size_t s = 0; s < layout.sources.size(); ++s)
    header.ratio_2 |= int64_t{layout.sources[s].ratio == 2} << (s % 63);
  header.kv_row_bytes = layout.kv_row_bytes;
  header.key_row_bytes = layout.key_row_bytes;
  header.tail_live = layout.tail_live;
  header.length = length;
  header.window_begin = window_begin;
  return header;
}

// First position with a live row in ring r.
int64_t ring_begin(const StateLayout& l, int64_t r, int64_t length, int64_t window_begin) {
  const bool decoder = r >= l.layers || (l.decoder_start >= 0 && r >= l.decoder_start);
  return std::max({decoder ? window_begin : 0, length - l.window, int64_t{0}});
}

// What for_each_live() will visit, in bytes.
int64_t live_bytes(const StateLayout& l, int64_t length, int64_t window_begin) {
  int64_t bytes = std::min(length, l.tail_live) * static_cast<int64_t>(sizeof(int32_t));
  for (int64_t r = 0; r < l.rings(); ++r)
    bytes += std::max<int64_t>(0, length - ring_begin(l, r, length, window_begin)) * l.window_row_bytes;
  for (const SourceLayout& source : l.sources) {
    bytes += length / source.ratio * (l.kv_row_bytes + l.key_row_bytes);
    if (source.ratio == 2 && length % 2 == 1) bytes += l.carry_row_floats * static_cast<int64_t>(sizeof(float));
  }
  return bytes;
}

// Visits the live entries in canonical order: visit(pointer, bytes). The one place that says what is live.
template <typename State, typename Visit>
void for_each_live(State& state, int64_t length, Visit&& visit) {
  const StateLayout& l = state.layout();
  for (int64_t r = 0; r < l.rings(); ++r) {
    for (int64_t p = ring_begin(l, r, length, state.window_begin()); p < length; ++p)
      visit(state.ring(r) + (p % l.ring_rows) * l.window_row_bytes, l.window_row_bytes);
  }
  for (size_t s = 0; s < l.sources.size(); ++s) {
    const PagedRows rows = state.rows(static_cast<int>(s));
    const int64_t count = length / l.sources[s].ratio;
    for (int64_t r = 0; r < count; ++r) visit(rows.kv(r), l.kv_row_bytes);
    for (int64_t r = 0; r < count; ++r) visit(rows.key(r), l.key_row_bytes);
    if (l.sources[s].ratio == 2 && length % 2 == 1) {
      visit(reinterpret_cast<std::byte*>(state.carry(static_cast<int>(s), length - 1)),
            l.carry_row_floats * static_cast<int64_t>(sizeof(float)));
    }
  }
  for (int64_t p = std::max<int64_t>(0, length - l.tail_live); p < length; ++p) {
    visit(reinterpret_cast<std::byte*>(state.tail() + p % l.tail_rows), static_cast<int64_t>(sizeof(int32_t)));
  }
}

}  // namespace

SequenceState::SequenceState(std::shared_ptr<const StateLayout> layout, PagePool* pool)
    : layout_(std::move(layout)),
      pool_(pool),
      fixed_(static_cast<size_t>(layout_->fixed_bytes)),
      pages_(layout_->sources.size()) {}

SequenceState& SequenceState::operator=(SequenceState&& other) noexcept {
  if (this == &other) return *this;
  clear();
  layout_ = std::move(other.layout_);
  pool_ = other.pool_;
  fixed_ = std::move(other.fixed_);
  pages_ = std::move(other.pages_);
  length_ = other.length_;
  window_begin_ = other.window_begin_;
  written_ = other.written_;
  floor_ = other.floor_;
  return *this;
}

SequenceState::~SequenceState() { clear(); }

void SequenceState::clear() {
  for (auto& pages : pages_) {
    for (std::byte* page : pages) pool_->give(page);
    pages.clear();
  }
  length_ = window_begin_ = written_ = floor_ = 0;
}

Status SequenceState::reserve(int64_t length) {
  int64_t missing = 0;
  const auto pages_of = [&](size_t s) {
    return (length / layout_->sources[s].ratio + layout_->page_rows - 1) / layout_->page_rows;
  };
  for (size_t s = 0; s < pages_.size(); ++s)
    missing += std::max<int64_t>(0, pages_of(s) - static_cast<int64_t>(pages_[s].size()));
  if (missing > pool_->free_pages()) {
    return error(Code::resource_exhausted, "a sequence of {} tokens needs {} more pages of context memory, {} are free",
                 length, missing, pool_->free_pages());
  }
  for (size_t s = 0; s < pages_.size(); ++s) {
    while (static_cast<int64_t>(pages_[s].size()) < pages_of(s)) pages_[s].push_back(pool_->take());
  }
  return {};
}

void SequenceState::advance(int64_t length) {
  length_ = length;
  written_ = std::max(written_, length);
}

Status SequenceState::truncate(int64_t length) {
  const int64_t lowest = std::max(floor_, written_ - layout_->rollback);
  if (length < 0 || length > length_ || (length != length_ && length < lowest)) {
    return invalid("truncate to {} tokens: the state holds {} and can go back to {}", length, length_,
                   std::max<int64_t>(0, lowest));
  }
  length_ = length;
  window_begin_ = std::min(window_begin_, length);  // positions that come now are computed in the decoder half too
  return {};
}

float* SequenceState::carry(int source, int64_t position) {
  std::byte* base = fixed_.data() + layout_->sources[static_cast<size_t>(source)].carry_offset;
  return reinterpret_cast<float*>(base) + (position / 2 % layout_->carry_rows) * layout_->carry_row_floats;
}

PagedRows SequenceState::rows(int source) const {
  return {pages_[static_cast<size_t>(source)].data(), layout_->page_rows, layout_->kv_row_bytes,
          layout_->key_row_bytes};
}

int64_t SequenceState::canonical_bytes() const {
  return static_cast<int64_t>(sizeof(Header)) + live_bytes(*layout_, length_, window_begin_);
}

std::string SequenceState::canonical() const {
  Header header = header_of(*layout_, length_, window_begin_);
  std::string bytes;
  bytes.reserve(static_cast<size_t>(canonical_bytes()));
  bytes.append(reinterpret_cast<const char*>(&header), sizeof(header));
  // Visiting writes nothing; the cast only lets one visitor serve reading and writing.
  for_each_live(const_cast<SequenceState&>(*this), length_, [&](const std::byte* data, int64_t count) {
    bytes.append(reinterpret_cast<const char*>(data), static_cast<size_t>(count));
  });
  header.checksum = XXH3_64bits(bytes.data() + kChecked, bytes.size() - kChecked);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

Status SequenceState::restore(std::string_view bytes) {
  Header header{};
  if (bytes.size() < sizeof(header)) {
    return error(Code::data_loss, "saved state: {} bytes, a header alone takes {}", bytes.size(), sizeof(header));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (std::string_view(header.magic, sizeof(header.magic)) != kMagic) {
    return invalid("saved state: it does not begin with {}: no saved state, or of another version", kMagic);
  }
  if (header.checksum != XXH3_64bits(bytes.data() + kChecked, bytes.size() - kChecked)) {
    return error(Code::data_loss, "saved state: the checksum does not fit its {} bytes: damaged or cut short",
                 bytes.size());
  }
  Header expected = header_of(*layout_, header.length, header.window_begin);
  expected.checksum = header.checksum;
  if (std::memcmp(&header, &expected, sizeof(header)) != 0) {
    return invalid(
        "saved state: of a model with {} layers, {} draft stages, window {}, head_dim {}, {} sources; accepted: {}, "
        "{}, {}, {}, {}, "
        "with equal rows and compression ratios",
        header.layers, header.draft_stages, header.window, header.head_dim, header.sources, expected.layers,
        expected.draft_stages, expected.window, expected.head_dim, expected.sources);
  }
  const int64_t last_begin = layout_->decoder_start >= 0 ? header.length : 0;
  if (header.length < 0 || header.length > kMaxLength || header.window_begin < 0 || header.window_begin > last_begin) {
    return error(Code::data_loss, "saved state: a length of {} tokens, decoder windows from {}", header.length,
                 header.window_begin);
  }
  const int64_t size = static_cast<int64_t>(sizeof(header)) + live_bytes(*layout_, header.length, header.window_begin);
  if (static_cast<int64_t>(bytes.size()) != size) {
    return error(Code::data_loss, "saved state: {} bytes, a sequence of {} tokens takes {}", bytes.size(),
                 header.length, size);
  }
  int64_t own = 0;
  for (const auto& pages : pages_) own += static_cast<int64_t>(pages.size());
  if (layout_->pages_for(header.length) > own + pool_->free_pages()) {
    return error(Code::resource_exhausted, "a saved state of {} tokens needs {} pages of context memory, {} are free",
                 header.length, layout_->pages_for(header.length), own + pool_->free_pages());
  }
  clear();
  DI_RETURN_IF_ERROR(reserve(header.length));
  window_begin_ = header.window_begin;
  const char* from = bytes.data() + sizeof(header);
  for_each_live(*this, header.length, [&](std::byte* data, int64_t count) {
    std::memcpy(data, from, static_cast<size_t>(count));
    from += count;
  });
  length_ = written_ = floor_ = header.length;
  return {};
}

void SequenceState::poison_dead(std::byte byte) {
  // Whatever is live is lifted out, everything is overwritten, and the live entries are put back.
  std::string live;
  for_each_live(*this, length_, [&](std::byte* data, int64_t count) {
    live.append(reinterpret_cast<const char*>(data), static_cast<size_t>(count));
  });
  std::fill(fixed_.begin(), fixed_.end(), byte);
  for (auto& pages : pages_) {
    for (std::byte* page : pages) std::memset(page, static_cast<int>(byte), static_cast<size_t>(layout_->page_bytes()));
  }
  size_t at = 0;
  for_each_live(*this, length_, [&](std::byte* data, int64_t count) {
    std::memcpy(data, live.data() + at, static_cast<size_t>(count));
    at += static_cast<size_t>(count);
  });
  floor_ = length_;  // the slack entries are gone
}

}  // namespace deepinfer
