#include "verify/verify.h"

#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/threads.h"
#include "text/json.h"
#include "verify/verify_chat.h"
#include "verify/verify_kernels.h"
#include "verify/verify_model.h"
#include "verify/verify_tokenizer.h"

namespace deepinfer {
namespace {

Result<std::string> kind_of(const std::string& dir) {
  const std::string path = dir + "/golden.json";
  DI_ASSIGN_OR_RETURN(const std::string text, read_file(path, size_t{1} << 20));
  const Result<JsonValue> json = JsonValue::parse(text);
  if (!json.ok()) return invalid("{}: {}", path, json.status().message());
  const JsonValue* kind = json->find("kind");
  if (kind == nullptr || !kind->is(JsonValue::Kind::string)) return invalid("{}: \"kind\": a string is expected", path);
  const JsonValue* version = json->find("version");
  if (version == nullptr || version->as_int64() != 1) return invalid("{}: \"version\": 1 is expected", path);
  return kind->string();
}

Status kernels(const std::string& dir, const VerifyOptions& options, Reporter& reporter) {
  const Kernels* table = cpu_kernels().front();
  if (!options.instruction_set.empty()) {
    DI_ASSIGN_OR_RETURN(table, cpu_kernels_named(options.instruction_set));
  }
  ThreadPool pool(options.threads > 0 ? options.threads : machine_threads());
  const int64_t scratch = kVerifyKernelsThreadBytes * pool.threads();
  const auto memory =
      std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(kVerifyKernelsArenaBytes + scratch + 64));
  std::byte* aligned = memory.get() + (-reinterpret_cast<uintptr_t>(memory.get()) & 63);
  Arena arena(aligned, kVerifyKernelsArenaBytes);
  Context context{&pool, &arena, aligned + kVerifyKernelsArenaBytes, kVerifyKernelsThreadBytes};
  return verify_kernels(dir, *table, context, reporter);
}

}  // namespace

Status verify_directory(const std::string& dir, const VerifyOptions& options, Reporter& reporter) {
  DI_ASSIGN_OR_RETURN(const std::string kind, kind_of(dir));
  const std::string name = std::filesystem::path(dir + "/").parent_path().filename().string();
  reporter.enter(name);
  if (kind == "model") return verify_model(dir, {options.instruction_set, options.threads}, reporter);
  if (kind == "kernels") return kernels(dir, options, reporter);
  if (kind == "chat") return verify_chat(dir, reporter);
  if (kind == "tokenizer") return verify_tokenizer(dir, options.tokenizer_tiny, options.tokenizer_v41, reporter);
  if (kind == "protocol" || kind == "maskbench") {
    reporter.skip(name, fmt::format("golden kind '{}' belongs to a part that this version does not have", kind));
    return {};
  }
  return invalid("{}/golden.json: kind '{}', accepted are model, kernels, tokenizer, chat, protocol, maskbench", dir,
                 kind);
}

}  // namespace deepinfer
