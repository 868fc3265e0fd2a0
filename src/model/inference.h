// Shape inference by the ONNX library, with its exceptions turned into values.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <tl/expected.hpp>
#include <unordered_map>
#include <vector>

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
  Inferred(onnx::ModelProto model, std::vector<NodeProblem> problems);
  const std::vector<NodeProblem>& problems() const { return problems_; }
  const onnx::TypeProto* type(const std::string& value) const;  // nullptr when unknown
  int elem_type(const std::string& value) const;                // TensorProto::UNDEFINED when unknown

 private:
  onnx::ModelProto model_;
  std::unordered_map<std::string, onnx::TypeProto> types_;
  std::vector<NodeProblem> problems_;
};

// Strict inference with type checks and data propagation, on a copy. Goes on behind the first wrong node. Never throws.
Inferred infer(onnx::ModelProto model, Declared declared);

// Lenient inference with data propagation: adds what can be inferred to the model and gives the integer values that
// propagation has found, as shapes. Never throws.
std::unordered_map<std::string, onnx::TensorShapeProto> infer_types(onnx::ModelProto& model);

// The model with its local functions expanded where they are called; else why that is not possible.
tl::expected<onnx::ModelProto, std::string> without_functions(onnx::ModelProto model);

// Gives symbols of the inputs fixed sizes, in inputs and in declared shapes; symbols that are not in `sizes` stay.
// Declared dimensions with other symbols become unknown, because they may be computed from these.
void fix_symbols(onnx::ModelProto& model, const std::map<std::string, std::int64_t>& sizes);
// All symbols of the inputs.
std::map<std::string, std::int64_t> symbols_of(const onnx::ModelProto& model, std::int64_t size);

}  // namespace portwright
