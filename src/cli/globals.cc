#include "cli/globals.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <filesystem>

#include "base/threads.h"

extern char** environ;

namespace deepinfer {
namespace {

// A variable, its check (empty: accepted) and what it does besides. Variables of features that this version does not have accept only the
// value that keeps them off.
struct Variable {
  std::string_view name;
  Status (*apply)(std::string_view value, Globals& globals);
};

Status one_of(std::string_view name, std::string_view value, std::initializer_list<std::string_view> accepted) {
  std::string list;
  for (const std::string_view a : accepted) {
    if (a == value) return {};
    list += (list.empty() ? "" : ", ") + std::string(a);
  }
  return invalid("{}={}: accepted are {}", name, value, list);
}

Status whole_number(std::string_view name, std::string_view value, int64_t least) {
  int64_t number = 0;
  const auto [end, problem] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (problem != std::errc() || end != value.data() + value.size() || number < least) {
    return invalid("{}={}: accepted are whole numbers from {}", name, value, least);
  }
  return {};
}

constexpr Variable kVariables[] = {
    {"DEEPINFER_ACCELERATOR",
     [](std::string_view v, Globals& globals) -> Status {
       DI_RETURN_IF_ERROR(one_of("DEEPINFER_ACCELERATOR", v, {"cpu", "nvidia"}));
       globals.device = v == "nvidia" ? "cuda" : "cpu";
       return {};
     }},
    {"DEEPINFER_HF_MODEL_DIR",
     [](std::string_view v, Globals& globals) -> Status {
       if (v.empty()) return invalid("DEEPINFER_HF_MODEL_DIR: empty; a directory is expected");
       globals.model_dir = v;
       return {};
     }},
    {"DEEPINFER_ENABLE_MTP_VARLEN",
     [](std::string_view v, Globals&) {
       return one_of("DEEPINFER_ENABLE_MTP_VARLEN", v, {"0", "1"});
     }},
    {"DEEPINFER_USE_NEXTN_DECODE",
     [](std::string_view v, Globals&) -> Status {
       DI_RETURN_IF_ERROR(whole_number("DEEPINFER_USE_NEXTN_DECODE", v, 0));
       if (v != "0") spdlog::warn("DEEPINFER_USE_NEXTN_DECODE={}: this version decodes without drafts", v);
       return {};
     }},
    {"DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE",
     [](std::string_view v, Globals&) -> Status {
       DI_RETURN_IF_ERROR(one_of("DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE", v, {"off", "compact"}));
       if (v != "off")
         return error(Code::unsupported, "DEEPINFER_YOCO_PREFILL_TRUNCATION_MODE={}: this version only has off", v);
       return {};
     }},
    {"DEEPINFER_YOCO_PREFILL_KEEP_TOKENS",
     [](std::string_view v, Globals&) { return whole_number("DEEPINFER_YOCO_PREFILL_KEEP_TOKENS", v, 1); }},
    {"DEEPINFER_BATCH_INVARIANT",
     [](std::string_view v, Globals&) -> Status {
       DI_RETURN_IF_ERROR(one_of("DEEPINFER_BATCH_INVARIANT", v, {"0", "1"}));
       if (v == "0")
         spdlog::warn(
             "DEEPINFER_BATCH_INVARIANT=0: results are always independent of the batch; nothing to switch off");
       return {};
     }},
};

}  // namespace

Result<ModelOptions> Globals::model_options() const {
  ModelOptions options;
  options.model_dir = model_dir.empty() ? bundled_model_dir() : model_dir;
  options.device = device == "cuda" ? Device::cuda : Device::cpu;
  options.threads = threads;
  options.instruction_set = instruction_set;
  return options;
}

void add_global_options(CLI::App& command, Globals& globals) {
  command.add_option("--model", globals.model_dir,
                     "model directory (else DEEPINFER_HF_MODEL_DIR, else the bundled model)");
  command.add_option("--device", globals.device, "where to compute")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command.add_option("--threads", globals.threads, "threads, 0 = one per core")
      ->check(CLI::Range(0, max_threads()))
      ->capture_default_str();
  command.add_option("--seed", globals.seed, "seed of the random numbers")
      ->check(CLI::Range(uint64_t{0}, (uint64_t{1} << 63) - 1));
  command.add_flag("--json", globals.json, "machine-readable output: JSON lines on stdout");
  command
      .add_option("--instruction-set", globals.instruction_set,
                  "kernels to use (default: the best of this machine; all give the same bits)")
      ->check(CLI::IsMember({"avx512", "avx2", "portable"}));
}

std::string bundled_model_dir() {
  // Beside the program in a build tree (build/<kind>/bin/deepinfer), else where it was built.
  std::error_code problem;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", problem);
  if (!problem) {
    const std::filesystem::path dir = program.parent_path() / "../../../models/deepseek-v4.1-tiny";
    if (std::filesystem::exists(dir, problem)) return std::filesystem::weakly_canonical(dir).string();
  }
  return DI_SOURCE_DIR "/models/deepseek-v4.1-tiny";
}

Status read_environment(Globals& globals) {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("DEEPINFER_")) continue;
    const size_t equal = text.find('=');
    const std::string_view name = text.substr(0, equal), value = text.substr(equal + 1);
    bool known = false;
    for (const Variable& variable : kVariables) {
      if (variable.name != name) continue;
      known = true;
      DI_RETURN_IF_ERROR(variable.apply(value, globals));
    }
    if (!known) spdlog::warn("{}: no such variable; docs/environment.md lists them", name);
  }
  return {};
}

int report(const Status& status) {
  if (status.ok()) return Globals::kDone;
  fmt::print(stderr, "deepinfer: {}\n", status.message());
  const bool ours = status.code() == Code::internal || status.code() == Code::resource_exhausted;
  return ours ? Globals::kFailed : Globals::kUsage;
}

}  // namespace deepinfer
