#include "verify/golden_weights.h"

#include <stdlib.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "base/sha256.h"
#include "base/threads.h"
#include "checkpoint/synth.h"
#include "checkpoint/token_map.h"
#include "text/json.h"

namespace deepinfer {
namespace {

constexpr int64_t kMaxBytes = int64_t{8} << 30;  // of weights made for a check

bool exists(const std::string& path) {
  std::error_code problem;
  return std::filesystem::exists(path, problem);
}

Result<std::string> temporary_dir() {
  std::error_code problem;
  std::filesystem::path base = std::filesystem::temp_directory_path(problem);
  if (problem) base = "/tmp";
  std::string path = (base / "deepinfer-verify-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr)
    return error(Code::io_error, "{}: cannot make a temporary directory: {}", path, std::strerror(errno));
  return path;
}

// SYNTH.md section 7.
uint64_t sum64(const TensorView& tensor) {
  uint64_t sum = 0;
  for (int64_t at = 0, i = 0; at < tensor.bytes; at += 8, ++i) {
    uint64_t word = 0;
    std::memcpy(&word, tensor.data + at, static_cast<size_t>(std::min<int64_t>(8, tensor.bytes - at)));
    sum += (word + 1) * (2 * static_cast<uint64_t>(i) + 1);
  }
  return sum;
}

std::string sha256_16(const TensorView& tensor) {
  Sha256 sha;
  sha.update(tensor.data, static_cast<size_t>(tensor.bytes));
  return sha.finish_hex().substr(0, 16);
}

// Rows of level 1: how many of so many things differ, and the first that does.
class Differences {
 public:
  Differences(std::string level, std::string quantity) : level_(std::move(level)), quantity_(std::move(quantity)) {}

  void add(bool same, const std::string& what) {
    if (!same && count_++ == 0) first_ = what;
    ++total_;
  }
  void report(Reporter& reporter) const {
    if (total_ > 0)
      reporter.row({kWeightsCase, level_, quantity_, static_cast<double>(count_), 0, count_ == 0, first_});
  }

 private:
  std::string level_, quantity_, first_;
  int64_t count_ = 0, total_ = 0;
};

// The generator's bytes of every tensor against the shipped ones.
void against_checkpoint(const Checkpoint& checkpoint, uint64_t seed, Differences& differences) {
  const std::vector<ManifestEntry> entries = manifest(checkpoint.config());
  std::vector<std::byte> bytes, scale;
  for (size_t i = 0; i < entries.size(); ++i) {
    const ManifestEntry& entry = entries[i];
    if (entry.storage == Storage::scale || entry.storage == Storage::none) continue;
    const bool scaled = i + 1 < entries.size() && entries[i + 1].storage == Storage::scale;
    bytes.resize(static_cast<size_t>(entry.bytes()));
    scale.resize(scaled ? static_cast<size_t>(entries[i + 1].bytes()) : 0);
    synth_tensor(entry, seed, bytes, scale);
    const TensorView& shipped = checkpoint.tensor(entry.name);
    differences.add(std::memcmp(shipped.data, bytes.data(), bytes.size()) == 0, entry.name);
    if (!scaled) continue;
    const TensorView& shipped_scale = checkpoint.tensor(entries[i + 1].name);
    differences.add(std::memcmp(shipped_scale.data, scale.data(), scale.size()) == 0, entries[i + 1].name);
  }
}

// Tensors against weights_digest.json.
Status against_digests(const Checkpoint& checkpoint, const std::string& path, Differences& differences) {
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path, size_t{64} << 20));
  Result<JsonValue> json = JsonValue::parse(text);
  if (!json.ok()) return invalid("{}: {}", path, json.status().message());
  if (!json->is(JsonValue::Kind::object)) return invalid("{}: an object is expected", path);
  std::map<std::string, const JsonValue*> digests;
  for (const JsonValue::Member& member : json->members()) digests[member.key] = &member.value;
  const auto field = [](const JsonValue& digest, std::string_view key) {
    const JsonValue* value = digest.find(key);
    return value == nullptr ? std::string() : value->string();
  };
  for (const auto& [name, tensor] : checkpoint.tensors()) {
    const auto found = digests.find(name);
    if (found == digests.end()) {
      differences.add(false, name + " is not listed");
      continue;
    }
    const JsonValue& digest = *found->second;
    const bool same = field(digest, "dtype") == dtype_name(tensor.dtype) &&
                      field(digest, "sum64") == fmt::format("{:016x}", sum64(tensor)) &&
                      field(digest, "sha256_16") == sha256_16(tensor);
    differences.add(same, name);
    digests.erase(found);
  }
  for (const auto& [name, digest] : digests) differences.add(false, name + " is not made");
  return {};
}

Status engram(const ModelConfig& config, const std::vector<int32_t>& token_map, const GoldenIndex& index,
              Differences& differences) {
  if (index.engram_layers.empty()) return {};
  DI_ASSIGN_OR_RETURN(const std::vector<EngramConstants> ours, engram_constants(config));
  differences.add(index.engram_layers == config.engram_layer_ids, "layer_ids");
  for (size_t i = 0; i < ours.size() && i < index.engram.size(); ++i) {
    const EngramConstants& golden = index.engram[i];
    differences.add(ours[i].primes == golden.primes, fmt::format("primes of layer {}", index.engram_layers[i]));
    differences.add(ours[i].offsets == golden.offsets, fmt::format("offsets of layer {}", index.engram_layers[i]));
    differences.add(ours[i].multipliers == golden.multipliers,
                    fmt::format("multipliers of layer {}", index.engram_layers[i]));
    differences.add(ours[i].rows == golden.rows, fmt::format("rows of layer {}", index.engram_layers[i]));
  }
  const auto pad = static_cast<size_t>(config.engram_pad_token_id);
  if (index.engram_pad_class >= 0)
    differences.add(pad < token_map.size() && token_map[pad] == index.engram_pad_class, "compressed_pad_id");
  return {};
}

}  // namespace

Result<GoldenWeights> GoldenWeights::make(const std::string& dir, const GoldenIndex& index,
                                          const std::string& config_file, int threads) {
  GoldenWeights weights;
  const std::string shipped = dir + "/checkpoint";
  std::string source = shipped;
  if (!exists(shipped) || config_file != "config.json") {
    const std::string path = dir + "/" + config_file;
    DI_ASSIGN_OR_RETURN(const ModelConfig config,
                        read_config(exists(path) || !exists(shipped) ? path : shipped + "/" + config_file));
    int64_t bytes = 0;
    for (const ManifestEntry& entry : manifest(config)) bytes += entry.bytes();
    if (bytes > kMaxBytes)
      return error(Code::unsupported, "{}: weights of {} bytes, at most {} are made for a check", path, bytes,
                   kMaxBytes);
    DI_ASSIGN_OR_RETURN(weights.temporary_, temporary_dir());
    SynthOptions synth;
    synth.config_name = index.config_name;
    synth.seed = index.seed;
    synth.out_dir = source = weights.temporary_ + "/checkpoint";
    synth.threads = threads > 0 ? threads : machine_threads();
    const Result<SynthSummary> made = synthesize(config, synth);
    if (!made.ok()) return made.status();
  }
  DI_ASSIGN_OR_RETURN(Checkpoint checkpoint, Checkpoint::open(source));
  weights.checkpoint_ = std::make_shared<const Checkpoint>(std::move(checkpoint));
  const bool own_map = exists(dir + "/token_map.safetensors");
  DI_ASSIGN_OR_RETURN(weights.token_map_, read_token_map(own_map ? dir : source, weights.checkpoint_->config()));
  return weights;
}

GoldenWeights::GoldenWeights(GoldenWeights&& other) noexcept { *this = std::move(other); }

GoldenWeights& GoldenWeights::operator=(GoldenWeights&& other) noexcept {
  std::swap(checkpoint_, other.checkpoint_);
  std::swap(token_map_, other.token_map_);
  std::swap(temporary_, other.temporary_);
  return *this;
}

GoldenWeights::~GoldenWeights() {
  std::error_code problem;
  if (!temporary_.empty()) std::filesystem::remove_all(temporary_, problem);
}

Status GoldenWeights::verify(const std::string& dir, const GoldenIndex& index, Reporter& reporter) const {
  const ModelConfig& config = checkpoint_->config();
  if (shipped()) {
    Differences tensors("1", "tensors other than the generator's");
    against_checkpoint(*checkpoint_, index.seed, tensors);
    tensors.report(reporter);
  }
  const std::string digests = dir + "/weights_digest.json";
  if (exists(digests)) {
    Differences tensors("1", "tensors other than their digests");
    DI_RETURN_IF_ERROR(against_digests(*checkpoint_, digests, tensors));
    tensors.report(reporter);
  }
  Differences some("1", "tensors other than index.json's digests");
  for (const auto& [name, digest] : index.sha256_16) {
    const auto found = checkpoint_->tensors().find(name);
    some.add(found != checkpoint_->tensors().end() && sha256_16(found->second) == digest, name);
  }
  some.report(reporter);
  Differences map("1", "token map other than the generator's");
  map.add(synth_token_map(config, index.config_name) == token_map_, "");
  map.report(reporter);
  Differences constants("7", "engram constants that differ");
  DI_RETURN_IF_ERROR(engram(config, token_map_, index, constants));
  constants.report(reporter);
  return {};
}

}  // namespace deepinfer
