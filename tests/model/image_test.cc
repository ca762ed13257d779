// Image tokens at model level (spec 7, 8.4, 8.5): they hash as dead, their Engram gate is 0, and gates add bias_vl to their scores. No golden
// prompt holds one; the twins here are the pages of the spec as loops, in double precision.
#include <cmath>
#include <map>

#include "checkpoint/engram_constants.h"
#include "support.h"

namespace deepinfer::props {
namespace {

class Images : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(All, Images, testing::Values("nano", "odd", "tiny"));

// Everything of one forward that depends on which tokens are images, by layer and position.
struct ImageProbe : Probe {
  void at(Point point, int layer, Rows<int64_t> rows) override {
    if (point != Point::engram_hash) return;
    for (int64_t r = 0; r < rows.rows; ++r) hash[layer].emplace_back(rows.row(r), rows.row(r) + rows.cols);
  }
  void at(Point point, int layer, Rows<float> rows) override {
    auto* into = point == Point::engram_gate ? &engram_gate : point == Point::gate_w ? &gate_w : nullptr;
    for (int64_t r = 0; into != nullptr && r < rows.rows; ++r)
      (*into)[layer].emplace_back(rows.row(r), rows.row(r) + rows.cols);
  }
  void at(Point point, int layer, Rows<int32_t> rows) override {
    if (point != Point::gate_idx) return;
    for (int64_t r = 0; r < rows.rows; ++r) gate_idx[layer].emplace_back(rows.row(r), rows.row(r) + rows.cols);
  }
  void at(Point point, int layer, Rows<bf16> rows) override {
    auto* into = point == Point::ffn_in       ? &ffn_in
                 : point == Point::engram_in  ? &engram_in
                 : point == Point::engram_out ? &engram_out
                                              : nullptr;
    for (int64_t r = 0; into != nullptr && r < rows.rows; ++r) {
      auto& row = (*into)[layer].emplace_back();
      for (int64_t c = 0; c < rows.cols; ++c) row.push_back(to_float(rows.row(r)[c]));
    }
  }
  std::map<int, std::vector<std::vector<int64_t>>> hash;
  std::map<int, std::vector<std::vector<int32_t>>> gate_idx;
  std::map<int, std::vector<std::vector<float>>> engram_gate, gate_w, ffn_in, engram_in, engram_out;
};

// Images alone, in pairs and in a span, at the very beginning and at the end, so that every look-back meets one.
std::vector<int32_t> prompt_with_images(const ModelConfig& config, Random& random) {
  std::vector<int32_t> tokens;
  const int32_t image = config.image_token_id;
  const auto text = [&](int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const int32_t id = static_cast<int32_t>(random.below(config.vocab_size));
      tokens.push_back(id == image ? 0 : id);
    }
  };
  for (const int64_t gap : {0, 1, 2, 3, 4, 6}) {
    tokens.push_back(image);
    text(gap);
  }
  tokens.insert(tokens.end(), 9, image);
  text(5);
  tokens.insert(tokens.end(), 2, image);
  return tokens;
}

// Spec 8.4 for one position: t_k is the pad class from the first look-back on that is before the sequence or an image.
std::vector<int64_t> hash_twin(const std::vector<int32_t>& tokens, int64_t position, const Subject& subject,
                               const EngramConstants& constants) {
  const ModelConfig& config = subject.config();
  const uint64_t pad = static_cast<uint64_t>(subject.classes[static_cast<size_t>(config.engram_pad_token_id)]);
  std::vector<uint64_t> t;
  for (int64_t k = 0; k < config.engram_max_ngram_size; ++k) {
    bool dead = false;
    for (int64_t j = 0; j <= k; ++j)
      dead = dead || position - j < 0 || tokens[static_cast<size_t>(position - j)] == config.image_token_id;
    t.push_back(
        dead ? pad
             : static_cast<uint64_t>(subject.classes[static_cast<size_t>(tokens[static_cast<size_t>(position - k)])]));
  }
  std::vector<int64_t> ids;
  for (int64_t n = 2; n <= config.engram_max_ngram_size; ++n) {
    uint64_t r = 0;
    for (int64_t k = 0; k < n; ++k) r ^= t[static_cast<size_t>(k)] * constants.multipliers[static_cast<size_t>(k)];
    for (int64_t h = 0; h < config.engram_n_heads; ++h) {
      const size_t column = static_cast<size_t>((n - 2) * config.engram_n_heads + h);
      ids.push_back(static_cast<int64_t>(r % constants.primes[column] + constants.offsets[column]));
    }
  }
  return ids;
}

TEST_P(Images, HashAndEngramGate) {
  Random random(60);
  const Subject& s = subject(GetParam());
  const ModelConfig& config = s.config();
  const auto constants = engram_constants(config).value();
  for (auto& model : load_two(s)) {
    PagePool pool = dirty_pool(*model, 4, 60);
    const std::vector<int32_t> tokens = prompt_with_images(config, random);
    for (const int64_t chunk : {0, 1, 3}) {
      SCOPED_TRACE(fmt::format("{}, runs of {}", name_of(*model), chunk));
      Sequence sequence(*model, pool, tokens);
      ImageProbe probe;
      while (sequence.left() > 0) {
        const int64_t count = chunk == 0 ? sequence.left() : std::min(chunk, sequence.left());
        ASSERT_NO_FATAL_FAILURE(step(*model, {{&sequence, count}}, &probe));
      }
      ASSERT_TRUE(all_finite(sequence));
      for (size_t e = 0; e < config.engram_layer_ids.size(); ++e) {
        const int layer = config.engram_layer_ids[e];
        ASSERT_EQ(probe.hash[layer].size(), tokens.size());
        for (size_t p = 0; p < tokens.size(); ++p) {
          ASSERT_EQ(probe.hash[layer][p], hash_twin(tokens, static_cast<int64_t>(p), s, constants[e]))
              << "layer " << layer << ", position " << p;
          const bool image = tokens[p] == config.image_token_id;
          for (const float gate : probe.engram_gate[layer][p]) {
            if (image) {
              ASSERT_EQ(gate, 0.0f) << p;
            } else {
              ASSERT_GT(gate, 0.0f) << p;
            }
          }
          if (image) {
            ASSERT_EQ(probe.engram_out[layer][p], probe.engram_in[layer][p]) << "the memory wrote into an image";
          }
        }
      }
    }
  }
}

// Spec 7, from the golden name of the gate's input: the k best of s + bias, or of s + bias_vl, and weights without a bias.
TEST_P(Images, GatesTakeTheirOwnBias) {
  Random random(61);
  const Subject& s = subject(GetParam());
  const ModelConfig& config = s.config();
  auto model = load(s);
  PagePool pool = dirty_pool(*model, 1, 60);
  Sequence sequence(*model, pool, prompt_with_images(config, random));
  ImageProbe probe;
  ASSERT_NO_FATAL_FAILURE(step(*model, {{&sequence, sequence.left()}}, &probe));
  const int64_t experts = config.n_routed_experts, d = config.hidden_size;
  const size_t k = static_cast<size_t>(config.num_experts_per_tok);
  int64_t image_rows = 0, changed = 0;
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("layers.{}.ffn.gate.", layer);
    const bf16* w = s.checkpoint->tensor(prefix + "weight").as<bf16>();
    const float* text_bias = s.checkpoint->tensor(prefix + "bias").as<float>();
    const float* image_bias = s.checkpoint->tensor(prefix + "bias_vl").as<float>();
    for (size_t p = 0; p < sequence.tokens.size(); ++p) {
      std::vector<double> score;
      for (int64_t e = 0; e < experts; ++e) {
        double dot = 0;
        for (int64_t i = 0; i < d; ++i)
          dot += static_cast<double>(probe.ffn_in[layer][p][static_cast<size_t>(i)]) * to_float(w[e * d + i]);
        score.push_back(std::sqrt(dot > 20 ? dot : std::log1p(std::exp(dot))));
      }
      // The k best under a bias, ascending; and by how much the last of them wins.
      const auto choose = [&](const float* bias, double& margin) {
        std::vector<int32_t> order;
        for (int32_t e = 0; e < experts; ++e) order.push_back(e);
        const auto biased = [&](int32_t e) { return score[static_cast<size_t>(e)] + bias[e]; };
        std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return biased(a) > biased(b); });
        margin = biased(order[k - 1]) - biased(order[k]);
        order.resize(k);
        std::sort(order.begin(), order.end());
        return order;
      };
      const bool image = sequence.tokens[p] == config.image_token_id;
      double margin = 0, other_margin = 0;
      const std::vector<int32_t> expected = choose(image ? image_bias : text_bias, margin);
      if (margin < 1e-5) continue;  // float32 may see it the other way round
      ASSERT_EQ(probe.gate_idx[layer][p], expected) << "layer " << layer << ", position " << p;
      image_rows += image;
      changed += image && choose(text_bias, other_margin) != expected;
      double sum = 1e-20;
      for (const int32_t e : expected) sum += score[static_cast<size_t>(e)];
      for (size_t i = 0; i < k; ++i) {
        const double weight = score[static_cast<size_t>(expected[i])] / sum * config.routed_scaling_factor;
        ASSERT_NEAR(probe.gate_w[layer][p][i], weight, 1e-5) << "layer " << layer << ", position " << p;
      }
    }
  }
  EXPECT_GT(image_rows, 0);
  // The bundled model stores a copy of its text bias there; synthetic ones draw another.
  if (std::string(GetParam()) != "tiny") {
    EXPECT_GT(changed, 0) << "the two biases never chose differently: nothing was tested";
  }
}

// A token is an image by its id alone: with another image_token_id the same ids are text.
TEST(ImageId, TheConfiguredOneAlone) {
  Random random(62);
  const Subject& s = subject("nano");
  std::vector<int32_t> tokens = prompt_with_images(s.config(), random);
  ModelConfig config = golden_config("nano");
  config.image_token_id = 511;
  for (int32_t& id : tokens) id = id == 511 ? 0 : id;
  auto model = load(s);
  auto other = load(synthetic(parse_config(config_to_json(config), "other image id").value(), "nano", test_seed()));
  PagePool pool = dirty_pool(*model, 2, 60);
  Sequence a(*model, pool, tokens), b(*other, pool, tokens);
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, a, 0));
  ASSERT_NO_FATAL_FAILURE(run_chunks(*other, b, 0));
  EXPECT_FALSE(same(a, b));
  // Without an image in it, the id makes no difference.
  const std::vector<int32_t> text(20, 7);
  Sequence c(*model, pool, text), e(*other, pool, text);
  a.state.clear();
  b.state.clear();
  ASSERT_NO_FATAL_FAILURE(run_chunks(*model, c, 0));
  ASSERT_NO_FATAL_FAILURE(run_chunks(*other, e, 0));
  EXPECT_TRUE(same(c, e));
}

}  // namespace
}  // namespace deepinfer::props
