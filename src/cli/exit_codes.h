// What the program's exit code says; scripts rely on it.
#pragma once

#include "portwright/result.h"
#include "portwright/verdict.h"

namespace portwright {

enum class ExitCode : int {
  passed = 0,         // all gates passed
  failed = 1,         // a gate failed: mismatch, invalid model, crash of an engine
  usage = 2,          // a wrong option or argument
  environment = 3,    // a package, a device or a permission is missing
  input = 4,          // a file is unreadable, malformed or hostile
  defect = 70,        // Portwright itself is wrong
  interrupted = 128,  // plus the number of the signal
};

inline ExitCode exit_code(Fault fault) {
  switch (fault) {
    case Fault::gate:
      return ExitCode::failed;
    case Fault::usage:
      return ExitCode::usage;
    case Fault::environment:
      return ExitCode::environment;
    case Fault::input:
      return ExitCode::input;
    case Fault::defect:
      break;
  }
  return ExitCode::defect;
}

inline ExitCode exit_code(Verdict verdict) {
  if (verdict == Verdict::passed) return ExitCode::passed;
  return verdict == Verdict::environment ? ExitCode::environment : ExitCode::failed;
}

}  // namespace portwright
