#include "model/inference.h"

#include <onnx/inliner/inliner.h>
#include <onnx/shape_inference/implementation.h>

#include <algorithm>
#include <exception>

#include "base/library_at_work.h"
#include "model/guarded_schemas.h"
#include "model/origin.h"

namespace portwright {
namespace {

// The innermost node of the model that a message is about: "(op_type:If, node name: c): ... (op_type:MatMul, node name:
// mm): [ShapeInferenceError] Incompatible dimensions". Nodes without a name are no nodes of the model (all of which
// have one here) but of the function that defines an operator.
NodeProblem problem_of(std::string_view text) {
  constexpr std::string_view kHead = "(op_type:", kName = ", node name: ", kEnd = "): ";
  NodeProblem problem;
  for (auto head = text.find(kHead); head != std::string_view::npos; head = text.find(kHead)) {
    text.remove_prefix(head + kHead.size());
    const auto end = text.find(kEnd);
    const auto what = text.substr(0, end);
    if (const auto name = what.find(kName); name != std::string_view::npos || problem.op_type.empty()) {
      problem.op_type = what.substr(0, name);
      problem.node = name == std::string_view::npos ? "" : what.substr(name + kName.size());
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + kEnd.size());
  }
  if (text.starts_with('[')) text.remove_prefix(std::min(text.size(), text.find("] ") + 2));
  problem.message = text.substr(0, text.find_last_not_of("\n ") + 1);
  std::replace(problem.message.begin(), problem.message.end(), '\n', ' ');
  return problem;
}

// Problems that say nothing about the model: inference wanted the values of a large tensor, which are not here; or it
// expands an operator that is defined as a function (MeanVarianceNormalization) without the function's default
// attributes.
bool is_no_problem(const NodeProblem& problem) {
  return problem.message.find("external tensors") != std::string::npos ||
         (problem.op_type != "Constant" &&
          problem.message.find("must be specified for a Constant node") != std::string::npos);
}

// One exception carries the problems of all nodes, a line each.
std::vector<NodeProblem> problems_of(std::string_view text) {
  constexpr std::string_view kNext = "\n(op_type:";
  std::vector<NodeProblem> out;
  for (;;) {
    const auto end = text.find(kNext);
    NodeProblem problem = problem_of(text.substr(0, end));
    if (!is_no_problem(problem)) out.push_back(std::move(problem));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 1);
  }
}

void drop_declared(onnx::GraphProto& graph) {
  graph.clear_value_info();
  for (auto& output : *graph.mutable_output()) output.clear_type();
}

void name_all_nodes(onnx::GraphProto& graph) {
  for (auto& node : *graph.mutable_node()) {
    if (node.name().empty()) node.set_name(label_of(node));
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) name_all_nodes(*attribute.mutable_g());
  }
}

}  // namespace

Inferred::Inferred(WorkingCopy inferred, std::vector<NodeProblem> problems)
    : copy_(std::move(inferred)), problems_(std::move(problems)) {
  const auto& graph = copy_.model().graph();
  types_.reserve(static_cast<std::size_t>(graph.node_size() + graph.initializer_size()));
  for (const auto& tensor : graph.initializer()) {
    auto& type = copy_.new_type();
    type.mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto& shape = *type.mutable_tensor_type()->mutable_shape();
    for (const std::int64_t dim : tensor.dims()) shape.add_dim()->set_dim_value(dim);
    types_[tensor.name()] = &type;
  }
  const auto add = [&](const auto& infos) {
    for (const auto& info : infos)
      if (info.has_type() && info.type().value_case() != onnx::TypeProto::VALUE_NOT_SET)
        types_[info.name()] = &info.type();
  };
  add(graph.output());
  add(graph.value_info());
  add(graph.input());
}

const onnx::TypeProto* Inferred::type(std::string_view value) const {
  const auto found = types_.find(value);
  return found == types_.end() ? nullptr : found->second;
}

int Inferred::elem_type(std::string_view value) const {
  const auto* known = type(value);
  return known == nullptr ? onnx::TensorProto::UNDEFINED : known->tensor_type().elem_type();
}

namespace {

// False when inference stopped at the first problem: it does so for types, and goes on for shapes.
bool run_inference(onnx::ModelProto& model, bool check_types, std::vector<NodeProblem>& problems) {
  const LibraryAtWork working(kOnnxLibrary);
  try {
    const onnx::ShapeInferenceOptions options(check_types, 1, true);
    onnx::shape_inference::DataValueMap values;
    onnx::shape_inference::InferShapes(model, &guarded_schemas(), options, &values);
    return true;
  } catch (const std::exception& problem) {
    for (auto& each : problems_of(problem.what()))
      if (std::find(problems.begin(), problems.end(), each) == problems.end()) problems.push_back(std::move(each));
    return std::string_view(problem.what()).find("Inference error(s)") != std::string_view::npos;
  }
}

}  // namespace

namespace {

void fix_dims(onnx::TypeProto& type, const Sizes& sizes, bool forget_others) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return;
  for (auto& dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
    if (!dim.has_dim_param()) continue;
    if (const auto found = sizes.find(dim.dim_param()); found != sizes.end()) {
      dim.set_dim_value(found->second);
    } else if (forget_others) {
      dim.clear_dim_param();
    }
  }
}

void fix_symbols(onnx::GraphProto& graph, const Sizes& sizes) {
  if (sizes.empty()) return;
  for (auto& info : *graph.mutable_input()) fix_dims(*info.mutable_type(), sizes, false);
  for (auto& info : *graph.mutable_output()) fix_dims(*info.mutable_type(), sizes, true);
  for (auto& info : *graph.mutable_value_info()) fix_dims(*info.mutable_type(), sizes, true);
}

}  // namespace

Inferred infer(const onnx::ModelProto& model, Declared declared, const Sizes& sizes) {
  WorkingCopy copy;
  auto& graph = *copy.model().mutable_graph();
  copy_bare_shell(model, copy.model());
  copy_bare(model.graph(), graph);
  if (declared == Declared::dropped) drop_declared(graph);
  fix_symbols(graph, sizes);
  name_all_nodes(graph);
  std::vector<NodeProblem> problems;
  if (!run_inference(copy.model(), true, problems)) run_inference(copy.model(), false, problems);
  return {std::move(copy), std::move(problems)};
}

std::unordered_map<std::string, onnx::TensorShapeProto> infer_types(onnx::ModelProto& model) {
  onnx::shape_inference::DataValueMap values;
  const LibraryAtWork working(kOnnxLibrary);
  try {
    const onnx::ShapeInferenceOptions lenient(false, 0, true);
    onnx::shape_inference::InferShapes(model, &guarded_schemas(), lenient, &values);
  } catch (const std::exception&) {
    values.clear();  // what was inferred before it stays
  }
  return values;
}

tl::expected<std::shared_ptr<const onnx::ModelProto>, std::string> without_functions(const onnx::ModelProto& model) {
  using Shared = std::shared_ptr<const onnx::ModelProto>;
  if (model.functions_size() == 0) return Shared(Shared(), &model);
  const LibraryAtWork working(kOnnxLibrary);
  try {
    auto flat = std::make_shared<onnx::ModelProto>(model);
    onnx::inliner::InlineLocalFunctions(*flat, false);
    return flat;
  } catch (const std::exception& problem) {
    return tl::unexpected<std::string>(problem.what());
  }
}

Sizes symbols_of(const onnx::ModelProto& model, std::int64_t size) {
  Sizes out;
  for (const auto& input : model.graph().input())
    for (const auto& dim : input.type().tensor_type().shape().dim())
      if (!dim.dim_param().empty()) out[dim.dim_param()] = size;
  return out;
}

}  // namespace portwright
