#include "verify/verify_model.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "verify/case_check.h"
#include "verify/golden_weights.h"

namespace deepinfer {
namespace {

// A case, or a part of it, that cannot be checked: a failed row, and the reason on standard error.
void broken(Reporter& reporter, const std::string& name, const Status& status) {
  std::fprintf(stderr, "%s: %s\n", name.c_str(), status.message().c_str());
  reporter.row({name, "file", "cannot be checked: " + status.message(), 1, 0, false});
}

int64_t tokens_of(const CaseInfo& info) {
  return std::max<int64_t>(info.length, 0) + std::max<int64_t>(info.prefill, 0) + std::max<int64_t>(info.steps, 0) + 1;
}

void run_case(const std::string& dir, const GoldenIndex& index, const CaseInfo& info, GoldenModel& model,
              Reporter& reporter) {
  const Result<GoldenCase> golden = GoldenCase::open(dir, info);
  if (!golden.ok()) return broken(reporter, info.name, golden.status());
  const CaseCheck check{model, *golden, index, dir, reporter};
  const auto level = [&](Status (*verify)(const CaseCheck&)) {
    if (reporter.stopped()) return;
    if (const Status status = verify(check); !status.ok()) broken(reporter, info.name, status);
  };
  if (info.kind == "prefill") {
    level(verify_layers);
    level(verify_prefill);
  } else if (info.kind == "decode") {
    level(verify_decode);
  } else if (info.kind == "dspark") {
    level(verify_drafts);
  } else {
    level(verify_replay);
  }
}

}  // namespace

Status verify_model(const std::string& dir, const VerifyModelOptions& options, Reporter& reporter) {
  DI_ASSIGN_OR_RETURN(const GoldenIndex index, read_golden_index(dir));
  const std::string prefix = std::filesystem::path(dir + "/").parent_path().filename().string() + "/";
  const auto wants = [&](const std::string& name) { return reporter.wants(name) || reporter.wants(prefix + name); };
  // Cases by configuration, in the index's order.
  std::vector<std::pair<std::string, std::vector<const CaseInfo*>>> groups;
  bool weights_wanted = wants(kWeightsCase);
  if (weights_wanted) groups.push_back({"config.json", {}});
  for (const CaseInfo& info : index.cases) {
    if (!wants(info.name)) continue;
    const std::string config = config_file_of(info.name);
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.first == config; });
    if (group == groups.end()) group = groups.insert(groups.end(), {config, {}});
    group->second.push_back(&info);
  }
  for (const auto& [config, cases] : groups) {
    const Result<GoldenWeights> weights = GoldenWeights::make(dir, index, config, options.threads);
    if (!weights.ok()) return weights.status();
    if (weights_wanted) DI_RETURN_IF_ERROR(weights->verify(dir, index, reporter));
    weights_wanted = false;
    if (cases.empty() || reporter.stopped()) continue;
    GoldenModel::Limits limits;
    limits.instruction_set = options.instruction_set;
    limits.threads = options.threads;
    limits.step_tokens = options.step_tokens;
    for (const CaseInfo* info : cases) limits.longest = std::max(limits.longest, tokens_of(*info));
    DI_ASSIGN_OR_RETURN(const std::unique_ptr<GoldenModel> model,
                        GoldenModel::load(weights->checkpoint(), weights->token_map(), limits));
    for (const CaseInfo* info : cases) {
      if (reporter.stopped()) return {};
      run_case(dir, index, *info, *model, reporter);
    }
  }
  return {};
}

}  // namespace deepinfer
