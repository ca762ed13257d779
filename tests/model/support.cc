#include "support.h"

#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <random>

#include "checkpoint/synth.h"
#include "engine/model_dir.h"

namespace deepinfer::props {

uint64_t test_seed() {
  static const uint64_t seed = [] {
    uint64_t value = (uint64_t{std::random_device()()} << 32) | std::random_device()();
    if (const char* text = std::getenv("DI_TEST_SEED"); text != nullptr) {
      char* end = nullptr;
      value = std::strtoull(text, &end, 10);
      if (end == text || *end != '\0') {
        std::fprintf(stderr, "DI_TEST_SEED=%s: accepted is a decimal number\n", text);
        std::exit(1);
      }
    }
    std::printf("DI_TEST_SEED=%llu repeats this run\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

ScratchDir::ScratchDir() {
  static int next = 0;
  path_ = testing::TempDir() + "/di_props_" + std::to_string(::getpid()) + "_" + std::to_string(next++);
  std::filesystem::remove_all(path_);
  std::filesystem::create_directories(path_);
}
ScratchDir::~ScratchDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

ModelConfig golden_config(const std::string& name) {
  return read_config(DI_SOURCE_DIR "/tests/golden/" + name + "/config.json").value();
}

Subject synthetic(const ModelConfig& config, const std::string& map_name, uint64_t seed,
                  const CheckpointOptions& options) {
  const ScratchDir dir;  // mapped files outlive their names
  SynthOptions synth;
  synth.config_name = map_name;
  synth.seed = seed;
  synth.out_dir = dir.path();
  const auto made = synthesize(config, synth);
  if (!made.ok()) ADD_FAILURE() << made.status().message();
  auto opened = Checkpoint::open(dir.path(), options);
  if (!opened.ok()) ADD_FAILURE() << opened.status().message();
  return {map_name, std::make_shared<const Checkpoint>(std::move(opened).value()), synth_token_map(config, map_name)};
}

const Subject& subject(const std::string& name) {
  static std::map<std::string, Subject> subjects;
  const auto found = subjects.find(name);
  if (found != subjects.end()) return found->second;
  if (name != "tiny") return subjects[name] = synthetic(golden_config(name), name, test_seed());
  const std::string dir = DI_SOURCE_DIR "/models/deepseek-v4.1-tiny";
  auto opened = Checkpoint::open(dir);
  if (!opened.ok()) ADD_FAILURE() << opened.status().message();
  const auto checkpoint = std::make_shared<const Checkpoint>(std::move(opened).value());
  const auto tokenizer = read_tokenizer(dir).value();
  auto classes = read_token_classes(dir, checkpoint->config(), &*tokenizer).value();
  return subjects[name] = {name, checkpoint, std::move(classes)};
}

std::unique_ptr<Model> load(const Subject& subject, const LoadOptions& options) {
  ModelLimits limits;
  limits.threads = options.threads;
  limits.instruction_set = options.instruction_set;
  limits.max_step_tokens = options.max_step_tokens;
  limits.max_context = options.max_context;
  limits.max_logit_rows = options.max_logit_rows;
  limits.max_runs = options.max_runs;
  limits.drafts = options.drafts;
  auto model = Model::load(subject.checkpoint, subject.classes, limits);
  if (!model.ok()) ADD_FAILURE() << model.status().message();
  return std::move(model).value();
}

std::vector<std::unique_ptr<Model>> load_all(const Subject& subject, const LoadOptions& options) {
  std::vector<std::unique_ptr<Model>> models;
  for (const Kernels* kernels : cpu_kernels()) {
    for (const int threads : {1, 2, 3}) {
      LoadOptions one = options;
      one.instruction_set = kernels->name;
      one.threads = threads;
      models.push_back(load(subject, one));
    }
  }
  return models;
}

std::vector<std::unique_ptr<Model>> load_two(const Subject& subject, const LoadOptions& options) {
  std::vector<std::unique_ptr<Model>> models;
  LoadOptions one = options;
  one.threads = 1;
  models.push_back(load(subject, one));
  one.threads = 2;
  if (subject.name != "tiny") one.instruction_set = cpu_kernels().back()->name;
  models.push_back(load(subject, one));
  return models;
}

PagePool dirty_pool(const Model& model, int64_t sequences, int64_t tokens) {
  const StateLayout& layout = *model.layout();
  PagePool pool = PagePool::create(layout.page_bytes(), sequences * layout.pages_for(tokens)).value();
  std::vector<std::byte*> pages;
  while (std::byte* page = pool.take()) {
    std::memset(page, 0xFF, static_cast<size_t>(layout.page_bytes()));
    pages.push_back(page);
  }
  for (std::byte* page : pages) pool.give(page);
  return pool;
}

SequenceState dirty_state(const Model& model, PagePool& pool) {
  SequenceState state(model.layout(), &pool);
  state.poison_dead(std::byte{0xFF});
  return state;
}

std::vector<int32_t> random_tokens(const ModelConfig& config, int64_t count, Random& random) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i)
    ids.push_back(random.chance(0.02) ? config.image_token_id : static_cast<int32_t>(random.below(config.vocab_size)));
  return ids;
}

Sequence::Sequence(const Model& model, PagePool& pool, std::vector<int32_t> ids)
    : tokens(std::move(ids)), state(dirty_state(model, pool)), logits(tokens.size()), taps(tokens.size()) {}

void step(Model& model, const std::vector<Piece>& pieces, Probe* probe) {
  std::vector<Run> runs;
  std::vector<int64_t> starts;
  for (const Piece& piece : pieces) {
    Sequence& s = *piece.sequence;
    starts.push_back(s.state.length());
    const std::span<const int32_t> tokens(s.tokens.data() + s.state.length(), static_cast<size_t>(piece.count));
    runs.push_back({&s.state, tokens, piece.rows, s.decoder_from});
  }
  const auto result = model.forward({runs, probe});
  ASSERT_TRUE(result.ok()) << result.status().message();
  int64_t logit_row = 0, tap_row = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    Sequence& s = *pieces[i].sequence;
    const int64_t end = starts[i] + pieces[i].count;
    ASSERT_EQ(s.state.length(), end);
    const int64_t wanted = pieces[i].rows == LogitRows::none   ? 0
                           : pieces[i].rows == LogitRows::last ? 1
                                                               : end - starts[i];
    for (int64_t p = end - wanted; p < end; ++p, ++logit_row) {
      const float* row = result->logits.row(logit_row);
      s.logits[static_cast<size_t>(p)].assign(row, row + result->logits.cols);
    }
    for (int64_t p = std::max(starts[i], std::min(s.decoder_from, end)); p < end; ++p, ++tap_row) {
      const bf16* row = result->main_hidden.row(tap_row);
      auto& out = s.taps[static_cast<size_t>(p)];
      out.clear();
      for (int64_t c = 0; c < result->main_hidden.cols; ++c) out.push_back(row[c].bits);
    }
  }
  ASSERT_EQ(logit_row, result->logits.rows);
  ASSERT_EQ(tap_row, result->main_hidden.rows);
}

Result<StepResult> forward_one(Model& model, SequenceState& state, std::span<const int32_t> tokens, LogitRows rows,
                               int64_t decoder_from) {
  const Run run{&state, tokens, rows, decoder_from};
  return model.forward({{&run, 1}, nullptr});
}

void run_chunks(Model& model, Sequence& sequence, int64_t chunk, LogitRows rows) {
  while (sequence.left() > 0) {
    const int64_t count = chunk == 0 ? sequence.left() : std::min(chunk, sequence.left());
    ASSERT_NO_FATAL_FAILURE(step(model, {{&sequence, count, rows}}));
  }
}

testing::AssertionResult same_bits(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return testing::AssertionFailure() << a.size() << " values against " << b.size();
  for (size_t i = 0; i < a.size(); ++i) {
    if (float_to_bits(a[i]) != float_to_bits(b[i]))
      return testing::AssertionFailure() << "value " << i << ": " << a[i] << " against " << b[i];
  }
  return testing::AssertionSuccess();
}

testing::AssertionResult same_state(const SequenceState& a, const SequenceState& b) {
  if (a.length() != b.length())
    return testing::AssertionFailure() << "length " << a.length() << " against " << b.length();
  const std::string x = a.canonical(), y = b.canonical();
  if (x == y) return testing::AssertionSuccess();
  constexpr size_t kHeader = 112;  // behind it: rings, sources, tail (docs/state-format.md)
  size_t at = 0, differ = 0;
  for (size_t i = std::min(x.size(), y.size()); i > kHeader; --i) {
    if (x[i - 1] != y[i - 1]) at = i - 1, ++differ;
  }
  return testing::AssertionFailure() << "canonical states of " << a.length() << " tokens: " << x.size() << " and "
                                     << y.size() << " bytes, " << differ << " differ, the first at byte " << at;
}

testing::AssertionResult same(const Sequence& a, const Sequence& b) {
  if (a.logits.size() != b.logits.size())
    return testing::AssertionFailure() << a.logits.size() << " positions against " << b.logits.size();
  for (size_t p = 0; p < a.logits.size(); ++p) {
    if (!a.logits[p].empty() && !b.logits[p].empty()) {
      const auto equal = same_bits(a.logits[p], b.logits[p]);
      if (!equal) return testing::AssertionFailure() << "logits of position " << p << ": " << equal.message();
    }
    if (!a.taps[p].empty() && !b.taps[p].empty() && a.taps[p] != b.taps[p])
      return testing::AssertionFailure() << "main_hidden of position " << p << " differs";
  }
  return same_state(a.state, b.state);
}

bool all_finite(const Sequence& sequence) {
  for (const auto& row : sequence.logits) {
    for (const float value : row) {
      if (!std::isfinite(value)) return false;
    }
  }
  return true;
}

std::string name_of(const Model& model) {
  return fmt::format("{} x {} threads", model.kernels().name, model.limits().threads);
}

}  // namespace deepinfer::props
