// Comparisons and verdicts as the terminal shows them.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "portwright/compare.h"
#include "portwright/verdict.h"

namespace portwright {

// One row an output, and a line about the worst element of each output that did not pass. Comparisons may carry a label
// (a size), which then is the first column.
struct Labelled {
  std::string label;
  const Comparison* comparison;
};
std::string metrics_table(const Console& console, const std::vector<Labelled>& comparisons);

// "passed" or "mismatch: 12 % out of tolerance" in its colour, with the line end.
std::string verdict_line(const Console& console, Verdict verdict, const std::string& why);

}  // namespace portwright
