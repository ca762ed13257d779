// Status and Result: how every function of DeepInfer reports failure. No exception crosses a folder.
//
// Threading: values, no shared state. A message names the thing refused (file, tensor, field, option), what was found and
// what is accepted, so that it can be shown to a user as it is.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace deepinfer {

enum class Code {
  ok,
  invalid_argument,    // a request, option or file content that can never be accepted
  not_found,           // a file or name that does not exist
  data_loss,           // a file that is damaged: truncated, overlapping, with a wrong checksum
  unsupported,         // well-formed, but a feature that is switched off or not part of this build
  io_error,            // the operating system refused
  resource_exhausted,  // memory, context length or page limit reached
  cancelled,
  internal,  // a bug of ours
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  Code code_ = Code::ok;
  std::string message_;
};

// A value or the reason why there is none. Reading value() of a failed result is a bug and ends the process.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return value_ ? *value_ : (std::abort(), *value_); }
  const T& value() const& { return value_ ? *value_ : (std::abort(), *value_); }
  T&& value() && { return value_ ? std::move(*value_) : (std::abort(), std::move(*value_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace deepinfer
