#include "state/layout.h"

#include <gtest/gtest.h>

#include "checkpoint/state_bytes.h"
#include "written_state.h"

namespace deepinfer {
namespace {

const char* const kConfigs[] = {"released", "nano", "odd", "wide"};

ModelConfig config_of(const std::string& name) {
  return read_config(std::string(DI_SOURCE_DIR "/tests/golden/") + name + "/config.json").value();
}

// The figures that the release is known by: 890 bytes a token (spec 1.1), rings of 128 + 12 rows (design 1).
TEST(StateLayout, ReleasedFigures) {
  const auto layout = StateLayout::make(config_of("released"), true);
  EXPECT_EQ(layout->kv_row_bytes, 512 / 2 + 512 / 16);
  EXPECT_EQ(layout->key_row_bytes, 128 / 2 + 128 / 32);
  int64_t per_two_tokens = 0;
  for (const SourceLayout& source : layout->sources)
    per_two_tokens += 2 / source.ratio * (layout->kv_row_bytes + layout->key_row_bytes);
  EXPECT_EQ(per_two_tokens, 2 * 890);
  EXPECT_EQ(layout->ring_rows, 140);
  EXPECT_EQ(layout->rollback, 12);
  EXPECT_EQ(layout->window_row_bytes, 512 + 512 / 32);
  EXPECT_EQ(layout->rings(), 43);
  EXPECT_EQ(layout->decoder_start, 20);
  ASSERT_EQ(layout->sources.size(), 4u);
  EXPECT_EQ(layout->sources[3].layer, 20);
  EXPECT_EQ(layout->sources[3].ratio, 1);
  EXPECT_EQ(layout->carry_rows, 7);
  EXPECT_EQ(layout->tail_live, 3);
  EXPECT_EQ(layout->tail_rows, 15);
  // 64 rows of a page, one page for every 64 (ratio 1) or 128 (ratio 2) tokens of each source.
  EXPECT_EQ(layout->page_bytes(), 64 * 356);
  EXPECT_EQ(layout->pages_for(1), 1);
  EXPECT_EQ(layout->pages_for(2), 4);
  EXPECT_EQ(layout->pages_for(128), 2 + 3);
  EXPECT_EQ(layout->pages_for(129), 3 + 3);
  EXPECT_EQ(layout->pages_for(130), 3 + 3 * 2);
  EXPECT_EQ(layout->pages_for(1048576), 16384 + 3 * 8192);
}

// The account that `inspect` prints is made from the configuration alone, by other code.
TEST(StateLayout, AgreesWithTheAccountOfTheConfiguration) {
  for (const char* name : kConfigs) {
    SCOPED_TRACE(name);
    const ModelConfig config = config_of(name);
    const StateBytes bytes = state_bytes(config);
    const auto layout = StateLayout::make(config, true);
    EXPECT_EQ(layout->kv_row_bytes, bytes.kv_row);
    EXPECT_EQ(layout->key_row_bytes, bytes.index_row);
    EXPECT_EQ(layout->window_row_bytes, bytes.window_row);
    EXPECT_EQ(layout->ring_rows, bytes.ring_rows);
    EXPECT_EQ(layout->layers * layout->ring_bytes(), bytes.layer_rings);
    EXPECT_EQ(layout->draft_stages * layout->ring_bytes(), bytes.draft_rings);
    EXPECT_EQ(layout->fixed_bytes, bytes.per_sequence);
    double per_token = 0;
    for (const SourceLayout& source : layout->sources)
      per_token += static_cast<double>(layout->kv_row_bytes + layout->key_row_bytes) / source.ratio;
    EXPECT_EQ(per_token, bytes.per_token);

    const auto without = StateLayout::make(config, false);
    EXPECT_EQ(without->draft_stages, 0);
    const auto padded = [](int64_t n) { return (n + 63) / 64 * 64; };
    EXPECT_EQ(without->fixed_bytes, padded(bytes.layer_rings) + bytes.carries + bytes.ngram_tail);
  }
}

// Rings, carries and tail lie one after the other and fill the fixed block; carries are aligned for float.
TEST(StateLayout, RegionsDoNotOverlap) {
  for (const char* name : kConfigs) {
    SCOPED_TRACE(name);
    const auto layout = StateLayout::make(config_of(name), true);
    int64_t end = layout->rings() * layout->ring_bytes();
    for (const SourceLayout& source : layout->sources) {
      EXPECT_EQ(source.carry_offset < 0, source.ratio == 1);
      if (source.ratio == 1) continue;
      EXPECT_GE(source.carry_offset, end);
      EXPECT_LT(source.carry_offset, end + 64);
      EXPECT_EQ(source.carry_offset % 4, 0);
      end = source.carry_offset + layout->carry_rows * layout->carry_row_floats * 4;
    }
    EXPECT_GE(layout->tail_offset, end);
    EXPECT_LT(layout->tail_offset, end + 64);
    EXPECT_EQ(layout->fixed_bytes, layout->tail_offset + layout->tail_rows * 4);
  }
}

TEST(StateLayout, PagesForIsTheSumOverSources) {
  for (const char* name : kConfigs) {
    SCOPED_TRACE(name);
    const auto layout = StateLayout::make(config_of(name), false);
    for (int64_t tokens = 0; tokens < 1000; ++tokens) {
      int64_t pages = 0;
      for (const SourceLayout& source : layout->sources) {
        for (int64_t row = 0; row < tokens / source.ratio; row += layout->page_rows) ++pages;
      }
      ASSERT_EQ(layout->pages_for(tokens), pages) << tokens;
    }
  }
}

// Behind the cut of a replay only a suffix is computed: a model whose later layers own rows or hash tokens has no such cut.
TEST(StateLayout, ModelsThatCannotBeReplayed) {
  ModelConfig config = config_of("nano");
  EXPECT_EQ(StateLayout::make(config, true)->decoder_start, 5);
  config.engram_layer_ids = {1, 5};
  EXPECT_EQ(StateLayout::make(config, true)->decoder_start, 5);
  config.engram_layer_ids = {1, 6};
  EXPECT_EQ(StateLayout::make(config, true)->decoder_start, -1);
  config = config_of("nano");
  config.kv_source_layer_ids = {2, 3, 5, 7};
  EXPECT_EQ(StateLayout::make(config, true)->decoder_start, -1);
  config.kv_source_layer_ids = {2, 3};
  EXPECT_EQ(StateLayout::make(config, true)->decoder_start, -1);
}

}  // namespace
}  // namespace deepinfer
