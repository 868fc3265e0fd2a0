// What two models have not in common: the graph's structure, not its results (that is `prove`).
#pragma once

#include <string>
#include <vector>

#include "portwright/graph.h"
#include "portwright/model.h"

namespace portwright {

struct Difference {
  enum class Kind { added, removed, changed };
  Kind kind = Kind::changed;
  std::string what;    // "node", "constant", "input", "output", "version" (of an opset or the IR)
  std::string name;    // of the node, value or domain
  std::string detail;  // "Conv", "float32[8, 3]", "group 1 to 2"; may be empty
};

// From `before` to `after`. Nodes belong together by the name of their first output, constants by their own; constants
// are equal when their bytes are (large ones are read only when all else is equal).
std::vector<Difference> differences(const Model& before, const Model& after);

}  // namespace portwright
