#include "model/lint.h"

#include <onnx/common/constants.h>

#include <map>
#include <set>
#include <string_view>

#include "model/origin.h"
#include "model/tensors.h"
#include "model/uses.h"

namespace portwright {
namespace {

using onnx::TensorProto;

std::int64_t onnx_opset(const onnx::ModelProto& model) {
  for (const auto& import : model.opset_import())
    if (onnx::IsOnnxDomain(import.domain())) return import.version();
  return 0;
}

class Linter {
 public:
  Linter(const onnx::ModelProto& model, const Inferred& types)
      : model_(model), graph_(model.graph()), types_(types), uses_(model.graph()), opset_(onnx_opset(model)) {}

  std::vector<Finding> run() {
    opsets();
    initializers();
    float64_ = declares_float64();
    for (const auto& node : graph_.node()) {
      name(node);
      dead(node);
      enters_float64(node);
      constant(node);
      custom(node);
      if (!onnx::IsOnnxDomain(node.domain())) continue;
      training(node);
      random(node);
      cast(node);
      transpose(node);
    }
    return std::move(out_);
  }

 private:
  void add(Severity severity, std::string code, std::string where, std::string message, std::string hint,
           std::string expected = "", std::string received = "") {
    out_.push_back({severity, std::move(code), std::move(where), std::move(message), std::move(expected),
                    std::move(received), std::move(hint)});
  }

  void opsets() {
    std::set<std::string> seen;
    for (const auto& import : model_.opset_import())
      if (!seen.insert(onnx::NormalizeDomain(import.domain())).second)
        add(Severity::warning, "duplicate_opset", import.domain(),
            "the domain '" + import.domain() + "' is imported twice", "keep one import");
    if (opset_ > 0 && opset_ < 7)
      add(Severity::warning, "old_opset", "", "opset " + std::to_string(opset_) + " predates numpy-style broadcasting",
          "convert it: portwright convert-opset MODEL --opset 17 -o OUT", "7 or later", std::to_string(opset_));
  }

  void initializers() {
    std::set<std::string_view> inputs;
    for (const auto& input : graph_.input()) inputs.insert(input.name());
    for (const auto& tensor : graph_.initializer()) {
      if (uses_.readers(tensor.name()) == 0)
        add(Severity::warning, "unused_initializer", tensor.name(),
            "initializer '" + tensor.name() + "' is read by no node", "remove it, or export again");
      if (model_.ir_version() >= 4 && inputs.contains(tensor.name()))
        add(Severity::note, "initializer_is_input", tensor.name(),
            "initializer '" + tensor.name() + "' is also an input, so engines may not fold it",
            "remove it from the inputs");
      if (tensor.data_type() == TensorProto::INT64)
        add(Severity::note, "int64_initializer", tensor.name(), "initializer '" + tensor.name() + "' is int64",
            "some engines compute in int32 only", "int32", "int64");
    }
  }

  // A model that takes or gives float64 means it.
  bool declares_float64() const {
    const auto is_double = [](const onnx::ValueInfoProto& info) {
      return info.type().tensor_type().elem_type() == TensorProto::DOUBLE;
    };
    for (const auto& input : graph_.input())
      if (is_double(input)) return true;
    for (const auto& output : graph_.output())
      if (is_double(output)) return true;
    return false;
  }

  void enters_float64(const onnx::NodeProto& node) {
    if (float64_) return;
    for (const auto& input : node.input())
      if (types_.elem_type(input) == TensorProto::DOUBLE && uses_.constant(input) == nullptr) return;
    for (const auto& output : node.output()) {
      if (output.empty() || types_.elem_type(output) != TensorProto::DOUBLE || node.op_type() == "Constant") continue;
      add(Severity::warning, "float64", label_of(node),
          node.op_type() + " computes in float64 although no input is float64",
          "cast the constant or the scalar behind it to float32 in the PyTorch code", "float32", "float64");
      return;
    }
  }

  void name(const onnx::NodeProto& node) {
    if (!node.name().empty() && !names_.insert(node.name()).second)
      add(Severity::warning, "duplicate_node_name", node.name(), "two nodes are called '" + node.name() + "'",
          "give nodes names of their own, so that engines and reports can tell them apart");
  }

  void dead(const onnx::NodeProto& node) {
    for (const auto& output : node.output())
      if (!output.empty() && uses_.readers(output) > 0) return;
    add(Severity::note, "dead_node", label_of(node), node.op_type() + " computes what nothing reads",
        "simplify the model");
  }

  void constant(const onnx::NodeProto& node) {
    if (node.op_type() != "Constant") return;
    for (const auto& attribute : node.attribute())
      if (attribute.has_t() && is_external(attribute.t()))
        add(Severity::note, "weight_in_constant", label_of(node), "a Constant node holds a large tensor",
            "engines handle initializers better: simplify the model");
  }

  void custom(const onnx::NodeProto& node) {
    if (onnx::IsOnnxDomain(node.domain()) || node.domain().starts_with("ai.onnx.")) return;
    for (const auto& function : model_.functions())
      if (function.domain() == node.domain() && function.name() == node.op_type()) return;
    add(Severity::note, "custom_operator", label_of(node),
        node.domain() + "::" + node.op_type() + " is no ONNX operator: only engines that know it can run this model",
        "export without optimisations of one engine");
  }

  void training(const onnx::NodeProto& node) {
    bool trains = false;
    if (node.op_type() == "Dropout") {
      const TensorProto* mode = opset_ >= 12 && node.input_size() > 2 ? uses_.constant(node.input(2)) : nullptr;
      const auto value = mode == nullptr ? std::nullopt : integers_of(*mode);
      trains = value && !value->empty() && value->front() != 0;
      if (opset_ < 7) trains = integer_attribute(node, "is_test", 0) == 0;
    } else if (node.op_type() == "BatchNormalization") {
      trains = opset_ >= 14 ? integer_attribute(node, "training_mode", 0) != 0 : node.output_size() > 1;
    }
    if (trains)
      add(Severity::warning, "training_mode", label_of(node), node.op_type() + " is in training mode",
          "call model.eval() before exporting", "inference mode", "training mode");
  }

  void random(const onnx::NodeProto& node) {
    static const std::set<std::string_view> kRandom = {"RandomNormal",      "RandomUniform", "RandomNormalLike",
                                                       "RandomUniformLike", "Bernoulli",     "Multinomial"};
    if (kRandom.contains(node.op_type()))
      add(Severity::warning, "random_operator", label_of(node), node.op_type() + " gives other values on every run",
          "outputs cannot be compared: call model.eval(), or feed the noise as an input");
  }

  void cast(const onnx::NodeProto& node) {
    if (node.op_type() != "Cast" || node.input_size() != 1) return;
    const auto to = integer_attribute(node, "to", 0);
    if (to != 0 && types_.elem_type(node.input(0)) == to)
      return add(Severity::note, "redundant_cast", label_of(node), "Cast to the type that its input has already",
                 "simplify the model");
    if (const auto* before = sole_producer(node, "Cast"))
      add(Severity::note, "cast_pair", label_of(node), "Cast behind Cast '" + label_of(*before) + "'",
          "simplify the model");
  }

  void transpose(const onnx::NodeProto& node) {
    if (node.op_type() != "Transpose") return;
    if (const auto* before = sole_producer(node, "Transpose"))
      add(Severity::note, "transpose_pair", label_of(node), "Transpose behind Transpose '" + label_of(*before) + "'",
          "simplify the model");
  }

  // The node before, when it has that operator and feeds only this one.
  const onnx::NodeProto* sole_producer(const onnx::NodeProto& node, std::string_view op_type) const {
    if (node.input_size() == 0 || uses_.readers(node.input(0)) != 1) return nullptr;
    const auto* before = uses_.producer(node.input(0));
    return before != nullptr && before->op_type() == op_type ? before : nullptr;
  }

  const onnx::ModelProto& model_;
  const onnx::GraphProto& graph_;
  const Inferred& types_;
  const Uses uses_;
  const std::int64_t opset_;
  bool float64_ = false;
  std::set<std::string_view> names_;
  std::vector<Finding> out_;
};

}  // namespace

std::vector<Finding> lint(const onnx::ModelProto& model, const Inferred& types) { return Linter(model, types).run(); }

std::vector<std::string> oddities_of(const std::vector<Finding>& findings) {
  struct Words {
    std::string_view code, one, many;
  };
  static constexpr Words kWords[] = {
      {"training_mode", "node in training mode", "nodes in training mode"},
      {"random_operator", "random operator", "random operators"},
      {"float64", "node that computes in float64", "nodes that compute in float64"},
      {"unused_initializer", "unused initializer", "unused initializers"},
      {"dead_node", "node whose output nothing reads", "nodes whose outputs nothing reads"},
      {"duplicate_node_name", "node name used twice", "node names used twice"},
      {"redundant_cast", "Cast to the same type", "Casts to the same type"},
      {"cast_pair", "Cast behind a Cast", "Casts behind Casts"},
      {"transpose_pair", "Transpose behind a Transpose", "Transposes behind Transposes"},
      {"int64_initializer", "int64 initializer", "int64 initializers"},
      {"int64_beyond_int32", "int64 initializer beyond int32", "int64 initializers beyond int32"},
      {"duplicate_initializer", "initializer kept twice", "initializers kept twice"},
      {"initializer_is_input", "initializer that is also an input", "initializers that are also inputs"},
      {"weight_in_constant", "weight in a Constant node", "weights in Constant nodes"},
      {"custom_operator", "node of a custom operator", "nodes of custom operators"},
      {"old_opset", "opset older than 7", "opsets older than 7"},
      {"duplicate_opset", "domain imported twice", "domains imported twice"},
  };
  std::vector<std::string> out;
  for (const Words& words : kWords) {
    std::size_t count = 0;
    for (const Finding& finding : findings) count += finding.code == words.code;
    if (count > 0) out.push_back(std::to_string(count) + " " + std::string(count == 1 ? words.one : words.many));
  }
  return out;
}

std::vector<Finding> collapsed(std::vector<Finding> findings, std::size_t most) {
  std::map<std::string, std::size_t> total;
  for (const Finding& finding : findings) ++total[finding.code];
  std::map<std::string, std::size_t> kept;
  std::vector<Finding> out;
  for (Finding& finding : findings) {
    const std::size_t count = ++kept[finding.code];
    if (count > most) continue;
    if (count == most && total[finding.code] > most)
      finding.message += " (and " + std::to_string(total[finding.code] - most) + " more like it)";
    out.push_back(std::move(finding));
  }
  return out;
}

}  // namespace portwright
