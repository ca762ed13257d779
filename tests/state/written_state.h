// States for tests without a model: entries whose bytes are a function of (what, position, salt), written where a forward pass would write
// them. Two states with equal salts at equal positions must have equal canonical bytes, whatever their history.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "base/random.h"
#include "checkpoint/config.h"
#include "state/sequence_state.h"

namespace deepinfer::state_test {

inline std::shared_ptr<const StateLayout> layout_of(const std::string& name, bool drafts = true) {
  const auto config = read_config(std::string(DI_SOURCE_DIR "/tests/golden/") + name + "/config.json");
  if (!config.ok()) ADD_FAILURE() << config.status().message();
  return StateLayout::make(config.value(), drafts);
}

inline PagePool pool_of(const StateLayout& layout, int64_t pages) {
  return PagePool::create(layout.page_bytes(), pages).value();
}

inline void fill(std::byte* out, int64_t bytes, uint64_t what, int64_t position, uint64_t salt) {
  const uint64_t stream = random_word(random_word(what, static_cast<uint64_t>(position)), salt);
  for (int64_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(random_word(stream, static_cast<uint64_t>(i)));
}

// Appends positions up to `length` as one run.
inline void write(SequenceState& state, int64_t length, uint64_t salt) {
  const StateLayout& l = state.layout();
  const int64_t start = state.length();
  const Status room = state.reserve(length);
  ASSERT_TRUE(room.ok()) << room.message();
  for (int64_t r = 0; r < l.rings(); ++r) {
    const bool decoder = r >= l.layers || (l.decoder_start >= 0 && r >= l.decoder_start);
    const int64_t from = std::max({start, length - l.ring_rows, decoder ? state.window_begin() : 0});
    for (int64_t p = from; p < length; ++p)
      fill(state.ring(r) + p % l.ring_rows * l.window_row_bytes, l.window_row_bytes, static_cast<uint64_t>(r), p, salt);
  }
  for (size_t s = 0; s < l.sources.size(); ++s) {
    const int source = static_cast<int>(s), ratio = l.sources[s].ratio;
    const PagedRows rows = state.rows(source);
    for (int64_t j = start / ratio; j < length / ratio; ++j) {
      // A row depends on all tokens of its group; the last one stands for them.
      fill(rows.kv(j), l.kv_row_bytes, 1000 + s, j * ratio, salt);
      fill(rows.key(j), l.key_row_bytes, 2000 + s, j * ratio, salt);
    }
    if (ratio != 2) continue;
    for (int64_t p = (start + 1) / 2 * 2; p < length; p += 2) {
      if (p < length - 2 * l.carry_rows) continue;
      fill(reinterpret_cast<std::byte*>(state.carry(source, p)), l.carry_row_floats * 4, 3000 + s, p, salt);
    }
  }
  for (int64_t p = std::max(start, length - l.tail_rows); p < length; ++p)
    fill(reinterpret_cast<std::byte*>(state.tail() + p % l.tail_rows), 4, 4000, p, salt);
  state.advance(length);
}

}  // namespace deepinfer::state_test
