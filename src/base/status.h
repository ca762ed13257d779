// Helpers around deepinfer::Status for code inside the project: error constructors with fmt, propagation, and DI_CHECK.
#pragma once

#include <fmt/format.h>

#include "deepinfer/status.h"

namespace deepinfer {

template <typename... Args>
Status error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return Status(code, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
Status invalid(fmt::format_string<Args...> text, Args&&... args) {
  return Status(Code::invalid_argument, fmt::format(text, std::forward<Args>(args)...));
}

[[noreturn]] void check_failed(const char* file, int line, const char* expression, const std::string& detail);

}  // namespace deepinfer

#define DI_CONCAT_INNER(a, b) a##b
#define DI_CONCAT(a, b) DI_CONCAT_INNER(a, b)

// Leaves the function with the status if it is an error.
#define DI_RETURN_IF_ERROR(expression)                                                   \
  do {                                                                                   \
    if (::deepinfer::Status di_status = (expression); !di_status.ok()) return di_status; \
  } while (0)

// DI_ASSIGN_OR_RETURN(auto x, make_x()): the value, or leaves the function with the error.
#define DI_ASSIGN_OR_RETURN(declaration, expression) \
  DI_ASSIGN_OR_RETURN_INNER(DI_CONCAT(di_result_, __LINE__), declaration, expression)
#define DI_ASSIGN_OR_RETURN_INNER(result, declaration, expression) \
  auto result = (expression);                                      \
  if (!result.ok()) return result.status();                        \
  declaration = std::move(result).value()

// For bugs of ours only: no file, request or network byte may be able to reach a failing check.
#define DI_CHECK(condition)                                          \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::deepinfer::check_failed(__FILE__, __LINE__, #condition, {}); \
  } while (0)
#define DI_CHECK_MSG(condition, ...)                                                       \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::deepinfer::check_failed(__FILE__, __LINE__, #condition, fmt::format(__VA_ARGS__)); \
  } while (0)
