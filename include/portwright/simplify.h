// A smaller graph that computes the same, proven.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "portwright/graph.h"
#include "portwright/model.h"
#include "portwright/tensor.h"
#include "portwright/verdict.h"

namespace portwright {

// Runs a model without inputs and gives its outputs by name: what folds constants.
using Evaluate = std::function<Result<Tensors>(const Model& piece)>;

// What comparing the original with the result has shown.
struct Proof {
  Verdict verdict = Verdict::not_run;
  std::size_t inputs = 0;  // cases that were compared
  double max_abs = 0;
  std::string reason;  // of a verdict other than passed
};
using Prove = std::function<Result<Proof>(const Model& original, const Model& simplified)>;

struct SimplifyOptions {
  std::uint64_t fold_budget = std::uint64_t{1} << 20;  // bytes that one folded constant may add to the file
  std::set<std::string> without;                       // names of passes that are left out; "all": every one
  Evaluate evaluate;                                   // empty: nothing is folded that must be computed
  Prove prove;                                         // empty: not proven
  std::function<void(const std::string&)> progress;
};

// What can be switched: the name, and what it does in a line.
struct PassInfo {
  std::string name, summary;
};
std::vector<PassInfo> simplify_passes();

struct PassReport {
  std::string name;
  std::size_t changes = 0;
  double seconds = 0;
  std::vector<std::string> details;  // "Identity 'id_3' removed"; one for each change
};

struct Simplification {
  Model model;
  std::size_t nodes_before = 0, nodes_after = 0;
  std::uint64_t bytes_before = 0, bytes_after = 0;  // of all initializers
  std::vector<PassReport> passes;                   // those that ran, in order
  std::vector<std::string> excluded_passes;         // that changed the results, and were left out for that
  std::optional<Proof> proof;                       // of what `model` is now
};

// Decompositions that the fusions of simplify know, whatever the model's opset: the standard operator, and how often.
struct Decomposed {
  std::string op;
  std::size_t count = 0;
};
std::vector<Decomposed> decompositions(const Model& model);

// Until nothing changes any more. Inputs and outputs keep their names, order and dynamic axes. When the proof fails, or
// shapes no longer work out, the guilty passes are found by bisection and left out; when it fails without any pass, the
// original is given back with that proof. A proof that could not be run (the original does not take the generated
// inputs) is given back as it is, with a result that nothing has shown to be equal. Errors: bad_pass (Fault::usage) for
// an unknown name in `without`, and those of Evaluate and Prove that are no fault of the model (Fault::environment).
Result<Simplification> simplify(const Model& model, const SimplifyOptions& options);

}  // namespace portwright
