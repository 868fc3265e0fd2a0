// A piece of a model as a model of its own.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "portwright/graph.h"
#include "portwright/model.h"

namespace portwright {

struct Piece {
  Model model;
  std::vector<std::string> inputs, outputs;
  std::size_t nodes = 0;
  std::optional<Model>
      before;  // the model up to those inputs that it computes; nullopt when they are all its own inputs
};

// The nodes of the top-level graph between tensors named `from` (default: the model's inputs) and `to` (default: its
// outputs). A name may be a pattern with * and ?. What the piece needs and `from` does not cut off becomes an input of
// it when it is one of the model. Types of inputs and outputs are those inferred.
// Errors (Fault::usage): no_such_tensor, with the nearest name; nothing_between.
Result<Piece> extract(const Model& model, const std::vector<std::string>& from, const std::vector<std::string>& to);

}  // namespace portwright
