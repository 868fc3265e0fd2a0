// Expected failures are values: Result<T> holds a T or an Error. Exceptions mean a defect of Portwright.
#pragma once

#include <string>
#include <tl/expected.hpp>  // std::expected of C++23, until the compilers of all supported systems have it

namespace portwright {

// Whose fault a failure is; decides the exit code (cli/exit_codes.h).
enum class Fault {
  gate,         // the work was done and the answer is no (mismatch, invalid model, crash of an engine)
  usage,        // an option or argument is wrong
  environment,  // a package, device or permission is missing
  input,        // a file is unreadable, malformed or hostile
  defect,       // Portwright itself is wrong
};

// One expected failure. `code` is stable and snake_case: scripts may match it. Codes that are also verdict words
// (crashed, timed_out, out_of_memory, unsupported, ...) become that verdict; see verdict_of() in verdict.h.
struct Error {
  Fault fault = Fault::defect;
  std::string stage;    // what was being done: "load", "export", "compile", "run", ...
  std::string code;     // "truncated", "timed_out", "no_such_file", ...
  std::string message;  // one line: what is wrong
  std::string where;    // file, node, option or "file:line"; may be empty
  std::string hint;     // one line: what fixes it; may be empty
  std::string detail;   // many lines: traceback or the end of a log; may be empty
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = Result<void>;

inline tl::unexpected<Error> fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace portwright

// Gives the value of a Result, or returns its error from the enclosing function.
#define PW_TRY(target, expression)                                                     \
  auto target##_result = (expression);                                                 \
  if (!target##_result) return ::portwright::fail(std::move(target##_result.error())); \
  auto& target = *target##_result
// The same for a Status, or for a Result whose value is not needed.
#define PW_CHECK(expression)                                                 \
  do {                                                                       \
    auto pw_status = (expression);                                           \
    if (!pw_status) return ::portwright::fail(std::move(pw_status.error())); \
  } while (false)
