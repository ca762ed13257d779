// Any bytes as config.json: refused with a message, or a configuration that is written back to the same one, whose layers have
// consistent roles, and whose tensors can be listed.
#include <cstdlib>
#include <string>

#include "checkpoint/config.h"
#include "checkpoint/engram_constants.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace deepinfer;
  const auto config = parse_config({reinterpret_cast<const char*>(data), size}, "input");
  if (!config.ok()) {
    if (config.status().message().empty()) std::abort();
    return 0;
  }
  const std::string text = config_to_json(*config);
  const auto again = parse_config(text, "written");
  if (!again.ok() || config_to_json(*again) != text) std::abort();
  for (const LayerRole& role : config->layers) {
    if (role.compress_ratio > 0 && (role.kv_source < 0 || role.index_source < role.kv_source)) std::abort();
    if (role.owns_kv && !role.selects) std::abort();
  }
  (void)config->decoder_start();
  if (state_bytes(*config).per_sequence <= 0) std::abort();
  // Long lists take long, not more code.
  const int64_t experts = config->num_hidden_layers * config->n_routed_experts;
  if (experts <= 256) {
    for (const ManifestEntry& entry : manifest(*config)) {
      if (entry.bytes() < 0) std::abort();
    }
  }
  const int64_t columns = (config->engram_max_ngram_size - 1) * config->engram_n_heads;
  if (columns * static_cast<int64_t>(config->engram_layer_ids.size()) <= 64) {
    const auto constants = engram_constants(*config);
    if (!constants.ok() && constants.status().message().empty()) std::abort();
  }
  return 0;
}
