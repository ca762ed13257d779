// The command line: parses, and hands over to one file per command.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include "base/names.h"
#include "cli/globals.h"
#include "cli/inspect_command.h"
#include "cli/render_command.h"
#include "cli/run_command.h"
#include "cli/synth_command.h"
#include "cli/tokenize_command.h"
#include "cli/verify_command.h"

namespace deepinfer {
namespace {

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  return nearest_name(word, std::vector<std::string_view>(known.begin(), known.end()));
}

// CLI11 says which words it could not place; say which known one is nearest.
int unknown_word(const CLI::App& app, const std::vector<std::string>& words) {
  std::string word = words.empty() ? "" : words.front();
  for (const std::string& candidate : words) {
    if (candidate.starts_with("-")) {
      word = candidate;
      break;
    }
  }
  word = word.substr(0, word.find('='));
  const auto chosen = app.get_subcommands();
  std::vector<std::string> known;
  if (chosen.empty()) {
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(command->get_name());
    fmt::print(stderr, "deepinfer: unknown command '{}'; nearest is '{}'\n", word, nearest(word, known));
  } else if (word.starts_with("-")) {
    for (const CLI::Option* option : chosen.front()->get_options()) {
      for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
    }
    fmt::print(stderr, "deepinfer {}: unknown option '{}'; nearest is '{}'\n", chosen.front()->get_name(), word,
               nearest(word, known));
  } else {
    fmt::print(stderr, "deepinfer {}: unexpected argument '{}'\n", chosen.front()->get_name(), word);
  }
  return Globals::kUsage;
}

int run(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_st("deepinfer"));
  spdlog::set_pattern("%^%l%$: %v");
  Globals globals;
  if (const Status status = read_environment(globals); !status.ok()) return report(status);

  CLI::App app("DeepInfer: runs DeepSeek-V4.1-Flash", "deepinfer");
  app.failure_message([](const CLI::App*, const CLI::Error& e) { return fmt::format("deepinfer: {}\n", e.what()); });
  const auto command = [&](const char* name, const char* what) {
    CLI::App* sub = app.add_subcommand(name, what);
    add_global_options(*sub, globals);
    sub->option_defaults()->always_capture_default();
    return sub;
  };
  RunOptions run_options;
  add_run_options(*command("run", "answer a question"), run_options);
  TokenizeOptions tokenize_options;
  add_tokenize_options(*command("tokenize", "text to token ids and back"), tokenize_options);
  RenderOptions render_options;
  add_render_options(*command("render", "request objects to prompts and token ids"), render_options);
  InspectOptions inspect_options;
  add_inspect_options(*command("inspect", "what a model directory holds"), inspect_options);
  VerifyCliOptions verify_options;
  add_verify_options(*command("verify", "check golden directories"), verify_options);
  SynthCliOptions synth_options;
  add_synth_options(*command("synth", "write a synthetic checkpoint"), synth_options);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return unknown_word(app,
                        app.get_subcommands().empty() ? app.remaining() : app.get_subcommands().front()->remaining());
  } catch (const CLI::ParseError& e) {
    const int code = app.exit(e);
    return code == 0 ? Globals::kDone : Globals::kUsage;
  }
  if (app.get_subcommands().empty()) {
    fmt::print(stderr, "{}", app.help());
    return Globals::kUsage;
  }
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "run") return run_run(run_options, globals);
  if (name == "tokenize") return run_tokenize(tokenize_options, globals);
  if (name == "render") return run_render(render_options, globals);
  if (name == "verify") return run_verify(verify_options, globals);
  if (name == "synth") {
    synth_options.json = globals.json;
    synth_options.threads = globals.threads;
    if (globals.seed.has_value()) synth_options.seed = *globals.seed;
    return run_synth(synth_options);
  }
  if (name == "inspect") {
    inspect_options.json = globals.json;
    if (!globals.model_dir.empty() || inspect_options.model_dir.empty()) {
      inspect_options.model_dir = globals.model_dir.empty() ? bundled_model_dir() : globals.model_dir;
    }
    return run_inspect(inspect_options);
  }
  return Globals::kUsage;
}

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) {
  const int code = deepinfer::run(argc, argv);
  // Output that could not be written is no success.
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout.good()) {
    std::fputs("deepinfer: standard output could not be written\n", stderr);
    return code == 0 ? deepinfer::Globals::kFailed : code;
  }
  return code;
}
