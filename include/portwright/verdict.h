// The words in which every outcome is told, in the terminal and in every record.
#pragma once

#include <string_view>

#include "portwright/result.h"

namespace portwright {

enum class Verdict {
  passed,
  mismatch,
  vacuous,
  unsupported,
  crashed,
  timed_out,
  out_of_memory,
  invalid_model,
  reference_failure,
  environment,
  not_run,
};

std::string_view to_string(Verdict verdict);
Result<Verdict> verdict_from(std::string_view word);

// The verdict that a failure stands for: its code if that is a verdict word, else environment for Fault::environment,
// invalid_model for Fault::input, and crashed for the rest.
Verdict verdict_of(const Error& error);

// The worse of two: passed is best; anything that failed outranks not_run; between failures the first wins.
Verdict worse(Verdict a, Verdict b);

}  // namespace portwright
