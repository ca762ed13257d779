#include "cli/inspect_command.h"

#include <array>
#include <filesystem>

#include "checkpoint/checkpoint.h"
#include "checkpoint/engram_constants.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_bytes.h"
#include "cli/json_line.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxBatch = int64_t{1} << 20;

struct Sum {
  int64_t tensors = 0, bytes = 0;
  void add(const ManifestEntry& entry) {
    ++tensors;
    bytes += entry.bytes();
  }
};

// Everything that is reported, gathered once for both forms of output.
struct Facts {
  std::string where;
  ModelConfig config;
  bool has_weights = false;
  bool scales_checked = false;
  Status check;
  std::vector<ManifestEntry> entries;
  Sum total, scales;
  std::array<Sum, kParts> parts;
  double expert_bits = 0;  // stored bits a weight of the routed experts, scales included
  StateBytes state;
  int64_t max_batch = 0, max_context = 0;
  int64_t used_bytes = 0, state_total = 0;
};

bool holds_weights(const fs::path& dir) {
  std::error_code failure;
  for (fs::directory_iterator at(dir, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name == "model.safetensors.index.json") return true;
    if (name.ends_with(".safetensors") && name != "token_map.safetensors") return true;
  }
  return false;
}

const char* role_name(const LayerRole& role) {
  if (role.compress_ratio == 0) return "window";
  if (role.owns_kv) return "full";
  return role.selects ? "reindex" : "reuse";
}

Status read_model(const InspectOptions& options, Facts& facts) {
  const bool is_file = options.model_dir.ends_with(".json");
  facts.where = options.model_dir;
  facts.has_weights = !is_file && holds_weights(options.model_dir);
  if (!facts.has_weights) {
    const std::string path = is_file ? options.model_dir : (fs::path(options.model_dir) / "config.json").string();
    DI_ASSIGN_OR_RETURN(facts.config, read_config(path));
    if (const auto constants = engram_constants(facts.config); !constants.ok()) {
      return error(constants.status().code(), "{}: {}", path, constants.status().message());
    }
    if (options.check)
      return invalid("{}: --check reads the scales of the weights, but there are no weights here", options.model_dir);
    return {};
  }
  CheckpointOptions open;
  if (options.check) open.scan_scale_bytes = -1;  // below, so that a NaN scale is told apart from a malformed directory
  DI_ASSIGN_OR_RETURN(const Checkpoint checkpoint, Checkpoint::open(options.model_dir, open));
  facts.config = checkpoint.config();
  facts.scales_checked = checkpoint.scales_checked();
  if (options.check) {
    facts.check = checkpoint.check_scales();
    facts.scales_checked = facts.check.ok();
  }
  return {};
}

Status add_up(const InspectOptions& options, Facts& facts) {
  const ModelConfig& config = facts.config;
  facts.entries = manifest(config);
  int64_t expert_weights = 0;
  for (const ManifestEntry& entry : facts.entries) {
    facts.total.add(entry);
    facts.parts[static_cast<size_t>(entry.part)].add(entry);
    if (entry.storage == Storage::scale) facts.scales.add(entry);
    if (entry.storage == Storage::f4_row) expert_weights += 2 * entry.elements();
  }
  facts.expert_bits = 8.0 * static_cast<double>(facts.parts[static_cast<size_t>(Part::routed_experts)].bytes) /
                      static_cast<double>(expert_weights);
  facts.state = state_bytes(config);
  facts.max_batch = options.max_batch;
  facts.max_context = options.max_context == 0 ? config.max_position_embeddings : options.max_context;
  if (facts.max_batch < 1 || facts.max_batch > kMaxBatch) {
    return invalid("--max-batch: found {}, accepted: 1 to {}", facts.max_batch, kMaxBatch);
  }
  if (facts.max_context < 1 || facts.max_context > config.max_position_embeddings) {
    return invalid("--max-context: found {}, accepted: 1 to max_position_embeddings = {}", facts.max_context,
                   config.max_position_embeddings);
  }
  facts.used_bytes = facts.total.bytes - facts.parts[static_cast<size_t>(Part::vision)].bytes;
  facts.state_total = facts.max_batch * (facts.state.per_sequence + compressed_bytes(config, facts.max_context));
  return {};
}

std::string layer_or_null(int layer) { return layer < 0 ? "null" : json_value(layer); }

std::string layer_json(const ModelConfig& config, int layer) {
  const LayerRole& role = config.layers[static_cast<size_t>(layer)];
  const int64_t rows = role.engram < 0 ? 0 : config.engram_num_embeddings[static_cast<size_t>(role.engram)];
  JsonLine line;
  line.add("layer", layer).add("role", role_name(role)).add("ratio", role.compress_ratio);
  line.raw("kv_source", layer_or_null(role.kv_source)).raw("index_source", layer_or_null(role.index_source));
  line.add("candidate_source", role.candidate_source).add("uses_candidates", role.uses_candidates);
  line.raw("engram_rows", rows == 0 ? "null" : json_value(rows)).add("tap", role.tap >= 0);
  return line.str();
}

// The configuration on one line. No text in it holds a line break or a blank.
std::string config_json(const ModelConfig& config) {
  std::string out;
  for (const char c : config_to_json(config)) {
    if (c != '\n' && c != ' ') out += c;
  }
  return out;
}

// A list of JSON texts.
std::string json_array(const std::vector<std::string>& items) { return fmt::format("[{}]", fmt::join(items, ",")); }

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("{}", fmt::join(shape, "x")); }

std::string parts_json(const Facts& facts) {
  std::vector<std::string> items;
  for (int part = 0; part < kParts; ++part) {
    const Sum& sum = facts.parts[static_cast<size_t>(part)];
    if (sum.tensors == 0) continue;
    JsonLine line;
    line.add("part", part_name(static_cast<Part>(part))).add("tensors", sum.tensors).add("bytes", sum.bytes);
    items.push_back(line.add("used", static_cast<Part>(part) != Part::vision).str());
  }
  return json_array(items);
}

std::string state_json(const StateBytes& state) {
  JsonLine line;
  line.add("bytes_per_token", state.per_token)
      .add("kv_row_bytes", state.kv_row)
      .add("index_row_bytes", state.index_row);
  line.add("bytes_per_sequence", state.per_sequence).add("layer_ring_bytes", state.layer_rings);
  line.add("draft_ring_bytes", state.draft_rings)
      .add("ring_rows", state.ring_rows)
      .add("ring_row_bytes", state.window_row);
  return line.add("carry_bytes", state.carries).add("ngram_tail_bytes", state.ngram_tail).str();
}

std::string json_report(const Facts& facts, const InspectOptions& options) {
  const ModelConfig& config = facts.config;
  JsonLine out;
  out.add("model", facts.where).add("weights", facts.has_weights);
  out.add("tensors", facts.total.tensors).add("bytes", facts.total.bytes).raw("config", config_json(config));
  std::vector<std::string> layers;
  for (int layer = 0; layer < config.num_hidden_layers; ++layer) layers.push_back(layer_json(config, layer));
  out.raw("layers", json_array(layers))
      .add("draft_stages", config.num_nextn_predict_layers)
      .raw("parts", parts_json(facts));
  out.add("scale_bytes", facts.scales.bytes).add("scales_checked", facts.scales_checked);
  out.add("expert_bits_per_weight", facts.expert_bits).raw("state", state_json(facts.state));
  JsonLine memory;
  memory.add("max_batch", facts.max_batch).add("max_context", facts.max_context).add("weight_bytes", facts.used_bytes);
  memory.add("state_bytes", facts.state_total).add("total_bytes", facts.used_bytes + facts.state_total);
  out.raw("memory", memory.str());
  if (options.tensors) {
    std::vector<std::string> list;
    for (const ManifestEntry& entry : facts.entries) {
      list.push_back(fmt::format("[{},{},{},{}]", json_value(entry.name), json_value(dtype_name(entry.dtype)),
                                 json_list(entry.shape), entry.bytes()));
    }
    out.raw("tensor_list", json_array(list));
  }
  return out.str() + "\n";
}

std::string layer_line(const ModelConfig& config, int layer) {
  const LayerRole& role = config.layers[static_cast<size_t>(layer)];
  std::string notes;
  if (role.candidate_source) notes += ", publishes candidate blocks";
  if (role.uses_candidates) notes += fmt::format(", under the candidates of {}", config.candidate_source_layer_id);
  if (role.engram >= 0)
    notes += fmt::format(", Engram of {} rows", config.engram_num_embeddings[static_cast<size_t>(role.engram)]);
  if (role.tap >= 0) notes += ", tap of the draft";
  std::string line = fmt::format("  {:>3}  ratio {}  {:<8}", layer, role.compress_ratio, role_name(role));
  if (role.compress_ratio > 0) line += fmt::format("rows of {}, selection of {}", role.kv_source, role.index_source);
  if (!notes.empty()) line += role.compress_ratio > 0 ? notes : notes.substr(2);
  while (line.back() == ' ') line.pop_back();
  return line + "\n";
}

const char* scales_state(const Facts& facts) {
  if (!facts.check.ok()) return "NaN found";
  if (facts.scales_checked) return "no NaN";
  return facts.has_weights ? "not checked (--check reads them)" : "no weights here";
}

std::string text_report(const Facts& facts, const InspectOptions& options) {
  const ModelConfig& c = facts.config;
  const StateBytes& state = facts.state;
  std::string out;
  const auto print = [&out]<typename... Args>(fmt::format_string<Args...> text, Args&&... args) {
    out += fmt::format(text, std::forward<Args>(args)...);
  };
  print("{}: DeepseekV41ForCausalLM, {}\n", facts.where,
        facts.has_weights ? "with weights" : "configuration only, no weights here");
  print("  vocabulary {}, hidden {}, {} layers, {} draft stages of block {}\n", c.vocab_size, c.hidden_size,
        c.num_hidden_layers, c.num_nextn_predict_layers, c.dspark_block_size);
  print("  {} heads of {} ({} rotary), window {}, index {} heads of {}, top {}\n", c.num_attention_heads, c.head_dim,
        c.qk_rope_head_dim, c.sliding_window, c.index_n_heads, c.index_head_dim, c.index_topk);
  print("  experts: {} of {} (draft: {} of {}), inner {}, and a shared one\n", c.num_experts_per_tok,
        c.n_routed_experts, c.dspark_num_experts_per_tok, c.dspark_n_routed_experts, c.moe_intermediate_size);
  print("  at most {} positions\nLayers\n", c.max_position_embeddings);
  for (int layer = 0; layer < c.num_hidden_layers; ++layer) out += layer_line(c, layer);
  print("Tensors: {}, {} bytes\n", facts.total.tensors, facts.total.bytes);
  for (int part = 0; part < kParts; ++part) {
    const Sum& sum = facts.parts[static_cast<size_t>(part)];
    if (sum.tensors == 0) continue;
    print("  {:<18}{:>7} tensors {:>16} bytes{}\n", part_name(static_cast<Part>(part)), sum.tensors, sum.bytes,
          static_cast<Part>(part) == Part::vision ? "  switched off: never read" : "");
  }
  print("  routed experts: {} bits a weight\n", facts.expert_bits);
  print("  scales: {} bytes, {}\n", facts.scales.bytes, scales_state(facts));
  if (options.tensors) {
    for (const ManifestEntry& entry : facts.entries) {
      print("{}\t{}\t{}\t{}\n", entry.name, dtype_name(entry.dtype), shape_text(entry.shape), entry.bytes());
    }
  }
  print("State\n  {} bytes a token (compressed row {}, index key {})\n", state.per_token, state.kv_row,
        state.index_row);
  print(
      "  {} bytes a sequence: rings of layers {}, rings of draft stages {} ({} rows of {}), carries {}, n-gram tail "
      "{}\n",
      state.per_sequence, state.layer_rings, state.draft_rings, state.ring_rows, state.window_row, state.carries,
      state.ngram_tail);
  print("Memory for {} sequences of {} tokens\n  weights {} + state {} = {} bytes\n", facts.max_batch,
        facts.max_context, facts.used_bytes, facts.state_total, facts.used_bytes + facts.state_total);
  return out;
}

}  // namespace

Result<Inspection> inspect_model(const InspectOptions& options) {
  Facts facts;
  DI_RETURN_IF_ERROR(read_model(options, facts));
  DI_RETURN_IF_ERROR(add_up(options, facts));
  return Inspection{options.json ? json_report(facts, options) : text_report(facts, options), facts.check};
}

int run_inspect(const InspectOptions& options) {
  const Result<Inspection> inspection = inspect_model(options);
  if (inspection.ok()) std::fputs(inspection->text.c_str(), stdout);
  std::fflush(stdout);
  const Status& problem = inspection.ok() ? inspection->check : inspection.status();
  if (problem.ok()) return 0;
  fmt::print(stderr, "deepinfer inspect: {}\n", problem.message());
  return inspection.ok() ? 1 : 2;
}

}  // namespace deepinfer
