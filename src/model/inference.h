// Shape inference by the ONNX library, with its exceptions turned into values.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

#include "model/working_copy.h"

namespace portwright {

inline constexpr const char* kOnnxLibrary = "the ONNX library";  // see base/library_at_work.h

// What inference says against one node. In a subgraph or a function it is the innermost node.
struct NodeProblem {
  std::string node, op_type, message;  // one line
  bool operator==(const NodeProblem&) const = default;
};

enum class Declared {
  kept,     // value_info and output types take part, and contradictions with them are problems
  dropped,  // only inputs and initializers are believed
};

// Types of all values of the top-level graph, as far as they are known.
class Inferred {
 public:
  Inferred() = default;  // nothing is
  Inferred(WorkingCopy inferred, std::vector<NodeProblem> problems);
  const std::vector<NodeProblem>& problems() const { return problems_; }
  const onnx::TypeProto* type(std::string_view value) const;  // nullptr when unknown
  int elem_type(std::string_view value) const;                // TensorProto::UNDEFINED when unknown

 private:
  WorkingCopy copy_;
  std::unordered_map<std::string_view, const onnx::TypeProto*> types_;  // in the copy
  std::vector<NodeProblem> problems_;
};

// Sizes of symbols of the inputs.
using Sizes = std::map<std::string, std::int64_t>;

// Strict inference with type checks and data propagation, on a copy. Goes on behind the first wrong node. Symbols in
// `sizes` are fixed first, in inputs and in declared shapes; declared dimensions with other symbols become unknown
// then, because they may be computed from these. Never throws.
Inferred infer(const onnx::ModelProto& model, Declared declared, const Sizes& sizes = {});

// Lenient inference with data propagation: adds what can be inferred to the model and gives the integer values that
// propagation has found, as shapes. Never throws.
std::unordered_map<std::string, onnx::TensorShapeProto> infer_types(onnx::ModelProto& model);

// The model with its local functions expanded where they are called (itself, which must live on, when it has none);
// else why that is not possible.
tl::expected<std::shared_ptr<const onnx::ModelProto>, std::string> without_functions(const onnx::ModelProto& model);

// All symbols of the inputs, at this size.
Sizes symbols_of(const onnx::ModelProto& model, std::int64_t size);

}  // namespace portwright
