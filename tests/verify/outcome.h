// What a verification found, for tests of the kinds: its counts, and its rows as JSON lines.
#pragma once

#include <functional>
#include <string>

#include "verify/report.h"

namespace deepinfer {

struct Outcome {
  Status status;
  size_t cases = 0, checks = 0, failed = 0, skipped = 0;
  std::string text;
};

inline Outcome outcome_of(const std::function<Status(Reporter&)>& check, const std::string& only, bool keep_going) {
  Outcome out;
  ReporterOptions options;
  options.json = true;
  options.keep_going = keep_going;
  options.only = only;
  options.write = [&](std::string_view line) { out.text += line; };
  Reporter reporter(options);
  out.status = check(reporter);
  out.cases = reporter.cases(), out.checks = reporter.checks(), out.failed = reporter.failed();
  out.skipped = reporter.skipped();
  return out;
}

}  // namespace deepinfer
