// Reporter: what `deepinfer verify` prints, one row a check, and the counts that decide its exit code.
//
// Formats  json: a row a line, {"case","level","quantity","value","limit","ok"}; a skip {"skip","reason"}; the last
// line
//          {"cases","checks","failed","skipped"}. Rows may have "at" and "golden" besides. Otherwise the same facts as a table for people. A level that is a
//          decimal number is written as a number. Numbers are the shortest text that reads back to the same float32
//          (whole numbers exactly); a value that is not finite is null and can only belong to a failed row.
// Use      for each case: `if (!reporter.wants(name)) continue;`, its rows, `if (reporter.stopped()) return`; once:
// `finish()`. Threading one thread at a time. Errors none of its own: a case that cannot be read is the caller's
// Status. Source   interfaces.md, section "verify".
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace deepinfer {

struct ReporterOptions {
  bool json = false;
  bool keep_going = false;                      // false: the first failed row stops the run
  std::string only;                             // glob on case names (* ? [..]; * also matches '/'); empty = all
  std::function<void(std::string_view)> write;  // takes whole lines, newline included; empty = standard output
};

// One check: a measured value, the limit it was held to, and whether it holds (some limits are lower bounds, so `ok` is
// given).
struct Row {
  std::string case_name;
  std::string level;     // "3", "ids", ...
  std::string quantity;  // what was measured, with its layer where it has one
  double value = 0;
  double limit = 0;
  bool ok = false;
  std::string at{};  // where the value was found, if it is the worst of several ("layer 3")
};

class Reporter {
 public:
  explicit Reporter(ReporterOptions options);

  // Rows belong to this golden directory from now on: printed in a field "golden", and its cases count apart from those of
  // the same name elsewhere.
  void enter(std::string_view directory);

  // True if the case is to be run; remembers that something matched.
  bool wants(std::string_view case_name);

  // Prints and counts a check.
  void row(const Row& row);

  // Prints and counts something that was not checked, and why.
  void skip(std::string_view what, std::string_view reason);

  // A failure happened and the run is not to keep going.
  bool stopped() const { return failed_ > 0 && !options_.keep_going; }

  size_t cases() const { return names_.size(); }  // case names with at least one row
  size_t checks() const { return checks_; }
  size_t failed() const { return failed_; }
  size_t skipped() const { return skipped_; }

  // Prints the last line. 0: every check held; 1: one failed; 2: no case matched `only`, or there was nothing to check
  // at all (said on standard error).
  int finish();

 private:
  void print(const std::string& line);

  ReporterOptions options_;
  std::string directory_;
  std::set<std::string> names_;
  size_t checks_ = 0, failed_ = 0, skipped_ = 0;
  bool matched_ = false;
  bool header_printed_ = false;
};

}  // namespace deepinfer
