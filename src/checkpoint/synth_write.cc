// Writes a synthetic checkpoint: plans the files, streams tensor parts into them from every thread, renames at the end.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>

#include "base/file.h"
#include "base/threads.h"
#include "checkpoint/synth.h"

namespace deepinfer {
namespace {

namespace fs = std::filesystem;
__extension__ using int128 = __int128;

constexpr int64_t kPartBytes = int64_t{1} << 20;  // what a thread makes and writes at a time
constexpr int64_t kMaxShards = 800;               // all are open at once
constexpr int64_t kProgressBytes = int64_t{64} << 20;
constexpr const char* kTemporary = ".synth-tmp";

Status io_failure(const std::string& path, const char* what) {
  return error(Code::io_error, "{}: {}: {}", path, what, std::strerror(errno));
}

// A file being written under a temporary name; disappears unless committed.
class OutputFile {
 public:
  OutputFile(const fs::path& dir, const std::string& name)
      : final_((dir / name).string()), temporary_(final_ + kTemporary) {}
  OutputFile(OutputFile&& other) noexcept
      : final_(std::move(other.final_)), temporary_(std::move(other.temporary_)), fd_(std::exchange(other.fd_, -1)) {}
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temporary_.c_str());
  }

  Status create(int64_t bytes) {
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd_ < 0) return io_failure(temporary_, "cannot create");
    if (::ftruncate(fd_, bytes) != 0) return io_failure(temporary_, "cannot set the size");
    return {};
  }
  Status write(const void* data, int64_t bytes, int64_t offset) const {
    const char* at = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(fd_, at, static_cast<size_t>(bytes), offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return io_failure(temporary_, "cannot write");
      at += written;
      offset += written;
      bytes -= written;
    }
    return {};
  }
  Status commit() {
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0 || ::rename(temporary_.c_str(), final_.c_str()) != 0) {
      Status status = io_failure(final_, "cannot move into place");
      ::unlink(temporary_.c_str());
      return status;
    }
    return {};
  }

 private:
  std::string final_, temporary_;
  int fd_ = -1;
};

// Where a tensor's bytes go.
struct Place {
  size_t shard = 0;
  int64_t offset = 0;  // in the file
};

struct Shard {
  std::string name;
  std::vector<size_t> entries;  // numbers in the manifest
  std::string header;           // length prefix included
  int64_t bytes = 0;            // of the whole file
};

struct Plan {
  std::vector<ManifestEntry> entries;
  std::vector<size_t> by_name;
  std::vector<Place> places;  // of every entry
  std::vector<Shard> shards;
  int64_t total_bytes = 0;
};

// Distributes tensors in order of their names, as the golden generator does.
Status distribute(Plan& plan, const SynthOptions& options) {
  int64_t before = 0;
  int64_t in_shard = 0;
  for (const size_t i : plan.by_name) {
    const int64_t bytes = plan.entries[i].bytes();
    size_t shard = plan.shards.empty() ? 0 : plan.shards.size() - 1;
    if (options.shards > 0) {
      const int128 share = int128{before} * options.shards / plan.total_bytes;
      shard = static_cast<size_t>(std::min<int64_t>(options.shards - 1, static_cast<int64_t>(share)));
      if (shard > plan.shards.size()) {
        return invalid("shards: with {} files, file {} would hold no tensor; accepted: fewer", options.shards,
                       plan.shards.size() + 1);
      }
    } else if (in_shard > 0 && in_shard + bytes > options.max_shard_bytes) {
      ++shard;
    }
    if (shard >= plan.shards.size()) {
      plan.shards.emplace_back();
      in_shard = 0;
    }
    plan.shards[shard].entries.push_back(i);
    plan.places[i].shard = shard;
    before += bytes;
    in_shard += bytes;
  }
  const int64_t files = static_cast<int64_t>(plan.shards.size());
  if (options.shards > 0 && files != options.shards) {
    return invalid("shards: the tensors fill {} files, found {}; accepted: at most {}", files, options.shards, files);
  }
  if (files > kMaxShards) return invalid("max-shard-bytes: makes {} files, accepted: at most {}", files, kMaxShards);
  return {};
}

// Names, offsets and header of a shard: widest types first, so that all are aligned, then by name.
void lay_out(Plan& plan, size_t number) {
  Shard& shard = plan.shards[number];
  shard.name = plan.shards.size() == 1
                   ? "model.safetensors"
                   : fmt::format("model-{:05}-of-{:05}.safetensors", number + 1, plan.shards.size());
  std::stable_sort(shard.entries.begin(), shard.entries.end(), [&](size_t a, size_t b) {
    return dtype_bytes(plan.entries[a].dtype) > dtype_bytes(plan.entries[b].dtype);
  });
  std::string json = R"({"__metadata__":{"format":"pt"})";
  int64_t offset = 0;
  for (const size_t i : shard.entries) {
    const ManifestEntry& entry = plan.entries[i];
    json += fmt::format(R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", entry.name,
                        dtype_name(entry.dtype), fmt::join(entry.shape, ","), offset, offset + entry.bytes());
    plan.places[i].offset = offset;
    offset += entry.bytes();
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  shard.header.assign(reinterpret_cast<const char*>(&length), sizeof length);
  shard.header += json;
  for (const size_t i : shard.entries) plan.places[i].offset += static_cast<int64_t>(shard.header.size());
  shard.bytes = static_cast<int64_t>(shard.header.size()) + offset;
}

Result<Plan> make_plan(const ModelConfig& config, const SynthOptions& options) {
  Plan plan;
  plan.entries = manifest(config);
  plan.places.resize(plan.entries.size());
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    plan.by_name.push_back(i);
    plan.total_bytes += plan.entries[i].bytes();
  }
  std::sort(plan.by_name.begin(), plan.by_name.end(),
            [&](size_t a, size_t b) { return plan.entries[a].name < plan.entries[b].name; });
  DI_RETURN_IF_ERROR(distribute(plan, options));
  for (size_t number = 0; number < plan.shards.size(); ++number) lay_out(plan, number);
  return plan;
}

std::string index_json(const Plan& plan) {
  std::string json = fmt::format("{{\n\"metadata\": {{\n\"total_size\": {}\n}},\n\"weight_map\": {{", plan.total_bytes);
  const char* separator = "\n";
  for (const size_t i : plan.by_name) {
    json += fmt::format("{}\"{}\": \"{}\"", separator, plan.entries[i].name, plan.shards[plan.places[i].shard].name);
    separator = ",\n";
  }
  return json + "\n}\n}";
}

std::string token_map_file(const std::vector<int32_t>& map) {
  std::string json = fmt::format(R"({{"token_map":{{"dtype":"I32","shape":[{}],"data_offsets":[0,{}]}}}})", map.size(),
                                 4 * map.size());
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  std::string file(reinterpret_cast<const char*>(&length), sizeof length);
  file += json;
  file.append(reinterpret_cast<const char*>(map.data()), 4 * map.size());
  return file;
}

// A part of a tensor for one thread.
struct Job {
  size_t entry = 0;
  int64_t begin = 0, end = 0;  // units
};

// Bytes of one unit of an entry, and of its scale.
struct UnitBytes {
  int64_t weight = 0, scale = 0;
};
UnitBytes unit_bytes(const ManifestEntry& entry) {
  switch (entry.storage) {
    case Storage::f32:
      return {4, 0};
    case Storage::bf16:
      return {2, 0};
    case Storage::f8_row:
      return {32, 1};
    case Storage::f4_row:
      return {16, 1};
    case Storage::f8_tile:
      return {32 * entry.shape[1], entry.shape[1] / 32};
    case Storage::scale:
    case Storage::none:
      break;
  }
  return {};
}

std::vector<Job> make_jobs(const Plan& plan) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const int64_t units = synth_units(plan.entries[i]);
    if (units == 0) continue;  // a scale: made with its weight
    const int64_t part = std::max<int64_t>(1, kPartBytes / unit_bytes(plan.entries[i]).weight);
    for (int64_t begin = 0; begin < units; begin += part) jobs.push_back({i, begin, std::min(units, begin + part)});
  }
  return jobs;
}

// The state that the threads of one run share.
class Run {
 public:
  Run(const Plan& plan, const std::vector<OutputFile>& files, const SynthOptions& options)
      : plan_(plan), files_(files), options_(options) {}

  Status run() {
    const std::vector<Job> jobs = make_jobs(plan_);
    ThreadPool pool(options_.threads);
    pool.parallel_for(pool.threads(), 1, [&](int64_t, int64_t, int) {
      std::vector<std::byte> weight;
      std::vector<std::byte> scale;
      for (size_t j = next_.fetch_add(1); j < jobs.size() && !failed_; j = next_.fetch_add(1)) {
        if (Status status = make(jobs[j], weight, scale); !status.ok()) fail(std::move(status));
      }
    });
    return first_error_;
  }

 private:
  Status make(const Job& job, std::vector<std::byte>& weight, std::vector<std::byte>& scale) {
    const ManifestEntry& entry = plan_.entries[job.entry];
    const UnitBytes unit = unit_bytes(entry);
    weight.resize(static_cast<size_t>(unit.weight * (job.end - job.begin)));
    scale.resize(static_cast<size_t>(unit.scale * (job.end - job.begin)));
    synth_part(entry, options_.seed, job.begin, job.end, weight.data(), scale.data());
    // The last band of a tiled tensor may be short.
    const int64_t bytes = std::min(static_cast<int64_t>(weight.size()), entry.bytes() - unit.weight * job.begin);
    DI_RETURN_IF_ERROR(put(job.entry, weight.data(), bytes, unit.weight * job.begin));
    if (!scale.empty()) {
      DI_RETURN_IF_ERROR(put(job.entry + 1, scale.data(), static_cast<int64_t>(scale.size()), unit.scale * job.begin));
    }
    count(bytes + static_cast<int64_t>(scale.size()));
    return {};
  }
  Status put(size_t entry, const void* data, int64_t bytes, int64_t offset) const {
    const Place& place = plan_.places[entry];
    return files_[place.shard].write(data, bytes, place.offset + offset);
  }
  void count(int64_t bytes) {
    if (!options_.progress) return;
    const std::lock_guard lock(mutex_);
    done_ += bytes;
    if (done_ < plan_.total_bytes && done_ - reported_ < kProgressBytes) return;
    reported_ = done_;
    options_.progress(done_, plan_.total_bytes);
  }
  void fail(Status status) {
    const std::lock_guard lock(mutex_);
    if (!failed_) first_error_ = std::move(status);
    failed_ = true;
  }

  const Plan& plan_;
  const std::vector<OutputFile>& files_;
  const SynthOptions& options_;
  std::atomic<size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Status first_error_;
  int64_t done_ = 0, reported_ = 0;
};

bool is_ours(const std::string& name) {
  return name == "config.json" || name == "model.safetensors.index.json" || name == "token_map.safetensors" ||
         (name.starts_with("model") && name.ends_with(".safetensors"));
}

// Makes the directory, or looks at what is there; lists files of an earlier run, config.json first.
Result<std::vector<fs::path>> prepare_directory(const SynthOptions& options) {
  std::error_code failure;
  fs::create_directories(options.out_dir, failure);
  if (failure) return error(Code::io_error, "{}: cannot create the directory: {}", options.out_dir, failure.message());
  std::vector<fs::path> earlier;
  for (fs::directory_iterator at(options.out_dir, failure), end; !failure && at != end; at.increment(failure)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(kTemporary)) {  // of a run that was ended in the middle
      ::unlink(at->path().c_str());
      continue;
    }
    if (!options.overwrite) {
      return invalid("{}: the directory holds {}; accepted: a new or empty directory, or --overwrite", options.out_dir,
                     name);
    }
    if (!is_ours(name)) {
      return invalid(
          "{}: the directory holds {}, which synth does not write; accepted: a directory that only synth wrote to",
          options.out_dir, name);
    }
    earlier.push_back(at->path());
  }
  if (failure) return error(Code::io_error, "{}: cannot list: {}", options.out_dir, failure.message());
  std::sort(earlier.begin(), earlier.end());
  return earlier;
}

}  // namespace

Result<SynthSummary> synthesize(const ModelConfig& original, const SynthOptions& options) {
  if (options.shards < 0 || options.shards > kMaxShards) {
    return invalid("shards: found {}, accepted: 1 to {}", options.shards, kMaxShards);
  }
  if (options.max_shard_bytes < 1)
    return invalid("max-shard-bytes: found {}, accepted: at least 1", options.max_shard_bytes);
  if (options.threads < 1) return invalid("threads: found {}, accepted: at least 1", options.threads);
  ModelConfig config = original;
  config.has_vision = false;
  DI_ASSIGN_OR_RETURN(const Plan plan, make_plan(config, options));
  DI_ASSIGN_OR_RETURN(const std::vector<fs::path> earlier, prepare_directory(options));
  const fs::path dir(options.out_dir);
  // A full disk harms more than this run, so it is refused before the first byte.
  std::error_code unknown;
  const fs::space_info space = fs::space(dir, unknown);
  if (!unknown && space.available < static_cast<uint64_t>(plan.total_bytes)) {
    return error(Code::io_error, "{}: the checkpoint takes {} bytes, {} are free there", options.out_dir,
                 plan.total_bytes, space.available);
  }
  std::vector<OutputFile> files;
  files.reserve(plan.shards.size() + 3);
  for (const Shard& shard : plan.shards) {
    DI_RETURN_IF_ERROR(files.emplace_back(dir, shard.name).create(shard.bytes));
    DI_RETURN_IF_ERROR(files.back().write(shard.header.data(), static_cast<int64_t>(shard.header.size()), 0));
  }
  DI_RETURN_IF_ERROR(Run(plan, files, options).run());
  const std::pair<const char*, std::string> texts[] = {
      {"token_map.safetensors", token_map_file(synth_token_map(config, options.config_name))},
      {"model.safetensors.index.json", index_json(plan)},
      {"config.json", config_to_json(config)}};
  for (const auto& [name, content] : texts) {
    const int64_t bytes = static_cast<int64_t>(content.size());
    DI_RETURN_IF_ERROR(files.emplace_back(dir, name).create(bytes));
    DI_RETURN_IF_ERROR(files.back().write(content.data(), bytes, 0));
  }
  // From here to the last rename the directory has no config.json, so that nobody opens a mixture of two runs.
  for (const fs::path& path : earlier) {
    if (::unlink(path.c_str()) != 0) return io_failure(path.string(), "cannot remove");
  }
  for (OutputFile& file : files) DI_RETURN_IF_ERROR(file.commit());
  return SynthSummary{static_cast<int64_t>(plan.entries.size()), plan.total_bytes,
                      static_cast<int64_t>(plan.shards.size())};
}

}  // namespace deepinfer
