#include "cli/verify_command.h"

#include <CLI/CLI.hpp>

#include "verify/verify.h"

namespace deepinfer {

void add_verify_options(CLI::App& command, VerifyCliOptions& options) {
  command.add_option("GOLDEN", options.directories, "golden directories, each with a golden.json")->required();
  command.add_flag("--keep-going", options.keep_going, "do not stop at the first check that fails");
  command.add_option("--only", options.only, "only cases whose name matches this glob");
  command.add_option("--tokenizer-v41", options.tokenizer_v41,
                     "the released tokenizer.json (its cases are skipped without)");
}

int run_verify(const VerifyCliOptions& options, const Globals& globals) {
  if (globals.device != "cpu")
    return report(error(Code::unsupported, "--device {}: this build computes on the cpu only", globals.device));
  ReporterOptions reporting;
  reporting.json = globals.json;
  reporting.keep_going = options.keep_going;
  reporting.only = options.only;
  Reporter reporter(reporting);
  VerifyOptions verify;
  verify.instruction_set = globals.instruction_set;
  verify.threads = globals.threads;
  verify.tokenizer_tiny = (globals.model_dir.empty() ? bundled_model_dir() : globals.model_dir) + "/tokenizer.json";
  verify.tokenizer_v41 = options.tokenizer_v41;
  int code = Globals::kDone;
  for (const std::string& directory : options.directories) {
    if (reporter.stopped()) break;
    if (const Status status = verify_directory(directory, verify, reporter); !status.ok()) {
      code = report(status);
      if (!options.keep_going) break;
    }
  }
  const int checks = reporter.finish();
  return code != Globals::kDone ? code : checks;
}

}  // namespace deepinfer
