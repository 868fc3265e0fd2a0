// Validity: ONNX's checker, strict inference with and without the declared shapes, and lints.
#include <onnx/checker.h>
#include <onnx/common/constants.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <exception>
#include <unordered_map>
#include <unordered_set>

#include "base/library_at_work.h"
#include "model/impl.h"
#include "model/inference.h"
#include "model/lint.h"
#include "model/origin.h"
#include "model/points.h"
#include "model/tensors.h"
#include "model/types.h"
#include "model/uses.h"

namespace portwright {
namespace {

std::string one_line(std::string_view text) {
  std::string out(text.substr(0, text.find_last_not_of("\n ") + 1));
  std::replace(out.begin(), out.end(), '\n', ' ');
  return out;
}

// The text between two marks; empty when one of them is missing.
std::string between(std::string_view text, std::string_view begin, std::string_view end) {
  const auto from = text.find(begin);
  if (from == std::string_view::npos) return {};
  text.remove_prefix(from + begin.size());
  return std::string(text.substr(0, text.find(end)));
}

Finding checker_finding(std::string_view text) {
  Finding finding;
  finding.code = "invalid_model";
  finding.node = between(text, "Name: ", " OpType:");
  if (finding.node.empty()) finding.node = between(text, "name: ", " OpType:");
  finding.message = one_line(text.substr(0, text.find("\n\n==> Context:")));
  if (text.find("topologically sorted") != std::string_view::npos) {
    finding.expected = "every input made by an earlier node, an input or an initializer";
    finding.received = between(text, "input '", "'");
    finding.hint = "the model was cut or edited wrongly: export it again";
  } else if (text.find("No Op registered") != std::string_view::npos) {
    finding.hint = "the operator does not exist in this opset: convert the opset, or check the operator's domain";
  } else {
    finding.hint = "export the model again, or fix the tool that wrote it";
  }
  return finding;
}

// ONNX's own checker stops at the first error.
std::vector<Finding> run_checker(const onnx::ModelProto& proto) {
  WorkingCopy copy;
  copy.model() = proto;
  for_each_tensor(copy.model(), [](onnx::TensorProto& tensor) {
    // load() has checked where the data lies. A location that begins with '#' means memory to the checker: it then does
    // not look for a file in the working directory.
    if (is_external(tensor)) place(tensor, {"#", 0, 0});
    return true;
  });
  const LibraryAtWork working(kOnnxLibrary);
  try {
    onnx::checker::check_model(copy.model(), false, false, false);
    return {};
  } catch (const std::exception& problem) {
    return {checker_finding(problem.what())};
  }
}

// Nodes of the top-level graph by the name they have in findings.
using Nodes = std::unordered_map<std::string, const onnx::NodeProto*>;
Nodes nodes_of(const onnx::GraphProto& graph) {
  Nodes nodes;
  for (const auto& node : graph.node()) nodes.emplace(label_of(node), &node);
  return nodes;
}

std::string input_types(const onnx::NodeProto& node, const Inferred& types) {
  std::string out;
  for (const auto& input : node.input()) {
    if (input.empty()) continue;
    const auto* type = types.type(input);
    out += (out.empty() ? "" : ", ") + input + " " + (type == nullptr ? "unknown" : type_text(*type));
  }
  return out;
}

Finding inference_finding(const NodeProblem& problem, const Nodes& nodes, const Inferred& types) {
  Finding finding;
  finding.node = problem.node;
  finding.message = problem.op_type.empty() ? problem.message : problem.op_type + ": " + problem.message;
  const bool types_differ = problem.message.find(" type") != std::string::npos;
  finding.code = types_differ ? "type_mismatch" : "shape_mismatch";
  finding.expected = types_differ ? "inputs of the types that " + problem.op_type + " takes, the same where it says so"
                                  : "inputs whose dimensions fit together";
  finding.hint =
      types_differ ? "cast one input in the PyTorch code" : "check the shapes in the PyTorch code at this node";
  if (const auto found = nodes.find(problem.node); found != nodes.end())
    finding.received = input_types(*found->second, types);
  return finding;
}

std::vector<Finding> inference_findings(const Inferred& types, const Nodes& nodes) {
  std::vector<Finding> out;
  for (const auto& problem : types.problems()) out.push_back(inference_finding(problem, nodes, types));
  return out;
}

// How a declared type contradicts what follows from the inputs; nullopt when it does not.
std::optional<std::string> contradiction(const onnx::TypeProto& declared, const onnx::TypeProto& inferred) {
  if (declared.value_case() == onnx::TypeProto::VALUE_NOT_SET ||
      inferred.value_case() == onnx::TypeProto::VALUE_NOT_SET)
    return std::nullopt;
  if (declared.value_case() != inferred.value_case()) return "declared_type_contradicted";
  if (!declared.has_tensor_type()) return std::nullopt;
  const auto& a = declared.tensor_type();
  const auto& b = inferred.tensor_type();
  if (a.elem_type() != 0 && b.elem_type() != 0 && a.elem_type() != b.elem_type()) return "declared_type_contradicted";
  if (!a.has_shape() || !b.has_shape()) return std::nullopt;
  if (a.shape().dim_size() != b.shape().dim_size()) return "declared_shape_contradicted";
  for (int i = 0; i < a.shape().dim_size(); ++i) {
    const auto& x = a.shape().dim(i);
    const auto& y = b.shape().dim(i);
    if (x.has_dim_value() && y.has_dim_value() && x.dim_value() != y.dim_value()) return "declared_shape_contradicted";
  }
  return std::nullopt;
}

class Declarations {
 public:
  Declarations(const onnx::GraphProto& graph, const Inferred& inferred) : graph_(graph), inferred_(inferred) {
    for (const auto& node : graph.node())
      for (const auto& output : node.output()) producers_[output] = &node;
  }

  std::vector<Finding> compare() {
    for (const auto& output : graph_.output()) {
      contradicted(output, "output");
      literal(output);
    }
    for (const auto& value : graph_.value_info()) contradicted(value, "value");
    return std::move(out_);
  }

 private:
  const onnx::NodeProto* producer(const std::string& value) const {
    const auto found = producers_.find(value);
    return found == producers_.end() ? nullptr : found->second;
  }

  void contradicted(const onnx::ValueInfoProto& declared, const std::string& what) {
    const auto* inferred = inferred_.type(declared.name());
    const auto* node = producer(declared.name());
    if (inferred == nullptr || node == nullptr) return;
    const auto code = contradiction(declared.type(), *inferred);
    if (!code) return;
    out_.push_back({Severity::error, *code, label_of(*node),
                    what + " '" + declared.name() + "' is declared " + type_text(declared.type()) + ", but " +
                        node->op_type() + " makes " + type_text(*inferred),
                    type_text(declared.type()), type_text(*inferred),
                    "the declared shape is wrong, or the graph was edited: export again"});
  }

  // An axis that is declared dynamic but is always the same number.
  void literal(const onnx::ValueInfoProto& declared) {
    const auto* inferred = inferred_.type(declared.name());
    const auto* node = producer(declared.name());
    if (inferred == nullptr || node == nullptr) return;
    const auto& a = declared.type().tensor_type().shape();
    const auto& b = inferred->tensor_type().shape();
    for (int i = 0; i < std::min(a.dim_size(), b.dim_size()); ++i)
      if (!a.dim(i).dim_param().empty() && b.dim(i).has_dim_value())
        out_.push_back({Severity::warning, "literal_dimension", label_of(*node),
                        "axis " + std::to_string(i) + " of output '" + declared.name() + "' is declared '" +
                            a.dim(i).dim_param() + "' but is always " + std::to_string(b.dim(i).dim_value()),
                        a.dim(i).dim_param(), std::to_string(b.dim(i).dim_value()),
                        "the size of the example was frozen into the graph: see its Reshape and Expand nodes"});
  }

  const onnx::GraphProto& graph_;
  const Inferred& inferred_;
  std::unordered_map<std::string_view, const onnx::NodeProto*> producers_;
  std::vector<Finding> out_;
};

// Convolutions whose channels do not fit: inference of ONNX lets them pass.
std::vector<Finding> check_channels(const onnx::GraphProto& graph, const Inferred& types) {
  std::vector<Finding> out;
  for (const auto& node : graph.node()) {
    if (node.op_type() != "Conv" || node.input_size() < 2) continue;
    const std::int64_t group = integer_attribute(node, "group", 1);
    const auto *x = types.type(node.input(0)), *w = types.type(node.input(1));
    if (x == nullptr || w == nullptr) continue;
    const auto &a = x->tensor_type().shape(), &b = w->tensor_type().shape();
    if (a.dim_size() < 3 || b.dim_size() < 3 || !a.dim(1).has_dim_value() || !b.dim(1).has_dim_value()) continue;
    std::int64_t expected = 0;
    if (__builtin_mul_overflow(b.dim(1).dim_value(), group, &expected) || a.dim(1).dim_value() == expected) continue;
    out.push_back({Severity::error, "shape_mismatch", label_of(node),
                   "Conv: the input has other channels than the weights take", std::to_string(expected) + " channels",
                   std::to_string(a.dim(1).dim_value()) + " channels",
                   "check the shapes in the PyTorch code at this node"});
  }
  return out;
}

// ONNX's checker takes a version that does not exist yet for the newest that it knows.
std::vector<Finding> check_opsets(const onnx::ModelProto& proto) {
  const auto& known = onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  std::vector<Finding> out;
  for (const auto& import : proto.opset_import()) {
    const auto found = known.find(onnx::NormalizeDomain(import.domain()));
    if (found == known.end() || (import.version() >= 1 && import.version() <= found->second.second)) continue;
    const std::string domain = import.domain().empty() ? "ai.onnx" : import.domain();
    out.push_back({Severity::error, "unknown_opset", "",
                   "there is no opset " + std::to_string(import.version()) + " of " + domain,
                   "1 to " + std::to_string(found->second.second), std::to_string(import.version()),
                   "export with an opset that engines know"});
  }
  return out;
}

void append(std::vector<Finding>& to, std::vector<Finding> from) {
  std::move(from.begin(), from.end(), std::back_inserter(to));
}

// The user's own line, where the exporter has kept it.
void add_origins(std::vector<Finding>& findings, const Nodes& nodes) {
  for (Finding& finding : findings) {
    const auto found = nodes.find(finding.node);
    if (found == nodes.end()) continue;
    if (const auto line = origin_of(*found->second).python_line; !line.empty()) finding.message += " [" + line + "]";
  }
}

}  // namespace

std::vector<std::string> Model::shape_problems() const {
  const Inferred types = infer(impl_->proto, Declared::dropped);
  std::vector<std::string> out;
  for (const NodeProblem& problem : types.problems()) out.push_back(problem.node + ": " + problem.message);
  return out;
}

std::vector<Finding> Model::check(const std::vector<std::map<std::string, std::int64_t>>& sizes) const {
  constexpr std::size_t kMostOfOneCode = 3;
  const auto& proto = impl_->proto;
  const Nodes nodes = nodes_of(proto.graph());
  const Inferred plain = infer(proto, Declared::dropped);
  std::vector<Finding> findings = run_checker(proto);
  append(findings, inference_findings(plain, nodes));
  append(findings, Declarations(proto.graph(), plain).compare());
  append(findings, check_opsets(proto));
  append(findings, check_channels(proto.graph(), plain));
  const auto is_error = [](const Finding& finding) { return finding.severity == Severity::error; };
  if (std::none_of(findings.begin(), findings.end(), is_error)) {
    // The declared types once more as inference takes them, for what a comparison of values does not see: subgraphs.
    append(findings, inference_findings(infer(proto, Declared::kept), nodes));
    append(findings, check_points(proto, plain, sizes));
  }
  auto odd = lint(proto, plain);
  append(odd, lint_constants(*this));
  append(findings, collapsed(std::move(odd), kMostOfOneCode));
  add_origins(findings, nodes);
  return findings;
}

}  // namespace portwright
