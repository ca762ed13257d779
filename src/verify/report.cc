#include "verify/report.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace deepinfer {
namespace {

std::string json_number(double x) {
  if (!std::isfinite(x)) return "null";
  if (x == std::floor(x) && std::fabs(x) < 9e15) return fmt::format("{}", static_cast<long long>(x));
  return fmt::format("{}", static_cast<float>(x));
}

std::string json_string(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == text.npos;
}

}  // namespace

Reporter::Reporter(ReporterOptions options) : options_(std::move(options)) {}

void Reporter::enter(std::string_view directory) {
  directory_ = directory;
  if (!options_.json) print(fmt::format("{}:", directory_));
}

bool Reporter::wants(std::string_view case_name) {
  const bool wanted = options_.only.empty() || ::fnmatch(options_.only.c_str(), std::string(case_name).c_str(), 0) == 0;
  matched_ |= wanted;
  return wanted;
}

void Reporter::row(const Row& row) {
  names_.insert(directory_ + '\0' + row.case_name);
  ++checks_;
  const bool ok = row.ok && std::isfinite(row.value);
  if (!ok) ++failed_;
  if (options_.json) {
    std::string more = row.at.empty() ? "" : fmt::format(R"(,"at":{})", json_string(row.at));
    if (!directory_.empty()) more += fmt::format(R"(,"golden":{})", json_string(directory_));
    print(fmt::format(R"({{"case":{},"level":{},"quantity":{},"value":{},"limit":{},"ok":{}{}}})",
                      json_string(row.case_name), is_number(row.level) ? row.level : json_string(row.level),
                      json_string(row.quantity), json_number(row.value), json_number(row.limit), ok, more));
    return;
  }
  if (!header_printed_) {
    print(fmt::format("{:<28} {:<8} {:<36} {:>12} {:>12}", "case", "level", "quantity", "value", "limit"));
    header_printed_ = true;
  }
  print(fmt::format("{:<28} {:<8} {:<36} {:>12.5g} {:>12.5g}  {}{}{}", row.case_name, row.level, row.quantity,
                    row.value, row.limit, ok ? "ok" : "FAILED", row.at.empty() ? "" : "  ", row.at));
}

void Reporter::skip(std::string_view what, std::string_view reason) {
  ++skipped_;
  if (options_.json) {
    print(fmt::format(R"({{"skip":{},"reason":{}}})", json_string(what), json_string(reason)));
  } else {
    print(fmt::format("skipped {}: {}", what, reason));
  }
}

int Reporter::finish() {
  if (options_.json) {
    print(fmt::format(R"({{"cases":{},"checks":{},"failed":{},"skipped":{}}})", cases(), checks_, failed_, skipped_));
  } else {
    print(fmt::format("{} cases, {} checks, {} failed, {} skipped", cases(), checks_, failed_, skipped_));
  }
  if (!matched_ && !options_.only.empty()) {
    std::fprintf(stderr, "--only %s: no case has such a name\n", options_.only.c_str());
    return 2;
  }
  if (checks_ == 0 && skipped_ == 0) {
    std::fprintf(stderr, "no checks were found\n");
    return 2;
  }
  return failed_ > 0 ? 1 : 0;
}

void Reporter::print(const std::string& line) {
  const std::string text = line + "\n";
  if (options_.write) {
    options_.write(text);
  } else {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }
}

}  // namespace deepinfer
