#include "cli/synth_command.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "base/threads.h"
#include "checkpoint/synth.h"

namespace deepinfer {
namespace {

int report(const Status& status) {
  std::fflush(stdout);
  fmt::print(stderr, "deepinfer synth: {}\n", status.message());
  return status.code() == Code::io_error ? 1 : 2;
}

}  // namespace

std::string synth_config_name(const std::string& config_path) {
  std::error_code failure;
  std::filesystem::path path = std::filesystem::absolute(config_path, failure);
  if (failure) path = config_path;
  std::string name = path.stem().string();
  if (name == "config" || name.starts_with("config_")) {
    path = path.lexically_normal().parent_path();
    if (path.filename() == "checkpoint") path = path.parent_path();
    return path.filename().string();
  }
  return name.substr(0, name.find('_'));
}

int run_synth(const SynthCliOptions& options) {
  const Result<ModelConfig> original = read_config(options.config_path);
  if (!original.ok()) return report(original.status());
  const Result<ModelConfig> config = synth_config(*original, {options.layers, options.experts, options.engram_rows});
  if (!config.ok())
    return report(error(config.status().code(), "{}: {}", options.config_path, config.status().message()));

  SynthOptions synth;
  synth.config_name = options.name.empty() ? synth_config_name(options.config_path) : options.name;
  synth.seed = options.seed;
  synth.out_dir = options.out_dir;
  synth.overwrite = options.overwrite;
  synth.shards = options.shards;
  synth.max_shard_bytes = options.max_shard_bytes;
  synth.threads = options.threads > 0 ? options.threads : machine_threads();
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&start] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double reported = 0;
  synth.progress = [&](int64_t done, int64_t total) {
    if (const double now = seconds(); now - reported >= 2.0) {
      reported = now;
      fmt::print(stderr, "{:.1f} of {:.1f} GB, {:.0f} MB/s\n", static_cast<double>(done) / 1e9,
                 static_cast<double>(total) / 1e9, static_cast<double>(done) / 1e6 / now);
    }
  };
  const Result<SynthSummary> summary = synthesize(*config, synth);
  if (!summary.ok()) return report(summary.status());
  const double rate = static_cast<double>(summary->bytes) / 1e6 / seconds();
  if (options.json) {
    fmt::print(R"({{"tensors":{},"bytes":{},"files":{},"seed":{},"time_s":{:.3f},"mb_per_s":{:.0f}}})"
               "\n",
               summary->tensors, summary->bytes, summary->files, options.seed, seconds(), rate);
  } else {
    fmt::print("{}: {} tensors, {} bytes in {} files, {:.2f} s, {:.0f} MB/s; configuration \"{}\", seed {}\n",
               options.out_dir, summary->tensors, summary->bytes, summary->files, seconds(), rate, synth.config_name,
               options.seed);
  }
  return 0;
}

}  // namespace deepinfer
