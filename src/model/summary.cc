// What `inspect` says: read off the structure, weights untouched.
#include "model/activations.h"
#include "model/impl.h"
#include "model/inference.h"
#include "model/lint.h"
#include "model/macs.h"
#include "model/tensors.h"

namespace portwright {
namespace {

void count_operators(const onnx::GraphProto& graph, ModelSummary& out) {
  for_each_graph(graph, [&](const onnx::GraphProto& each) {
    for (const auto& node : each.node()) {
      ++out.nodes;
      ++out.operators[node.domain().empty() || node.domain() == "ai.onnx" ? node.op_type()
                                                                          : node.domain() + "::" + node.op_type()];
    }
  });
}

void count_weights(const onnx::GraphProto& graph, ModelSummary& out) {
  const auto add = [&](const onnx::TensorProto& tensor) {
    out.parameters += count_of(tensor.dims()).value_or(0);
    const std::uint64_t bytes = raw_bytes(tensor.data_type(), tensor.dims()).value_or(0);
    out.weight_bytes += bytes;
    out.weight_types[type_name(tensor.data_type())] += bytes;
  };
  for_each_graph(graph, [&](const onnx::GraphProto& each) {
    for (const auto& tensor : each.initializer()) add(tensor);
    for (const auto& sparse : each.sparse_initializer()) add(sparse.values());
  });
}

std::vector<std::string> dynamic_axes_of(const std::vector<ValueInfo>& inputs) {
  std::vector<std::string> out;
  for (const auto& input : inputs)
    for (std::size_t axis = 0; axis < input.shape.size(); ++axis)
      if (const auto& dim = input.shape[axis]; !dim.value)
        out.push_back(input.name + "." + std::to_string(axis) + "=" + (dim.symbol.empty() ? "?" : dim.symbol));
  return out;
}

// What takes an inference: at the declared shapes, with every symbol taken as 1.
void add_inferred(const onnx::ModelProto& proto, ModelSummary& out) {
  const auto flat = without_functions(proto);
  if (!flat) {
    out.oddities = oddities_of(lint(proto, infer(proto, Declared::kept)));
    return;
  }
  const Inferred types = infer(**flat, Declared::kept, symbols_of(**flat, 1));
  out.macs = count_macs(**flat, types);
  out.activation_bytes = peak_activation_bytes(**flat, types);
  out.oddities = oddities_of(lint(proto, types));
}

}  // namespace

std::uint64_t Model::weight_bytes() const {
  ModelSummary out;
  count_weights(impl_->proto.graph(), out);
  return out.weight_bytes;
}

ModelSummary Model::summary() const {
  const auto& proto = impl_->proto;
  ModelSummary out;
  out.inputs = inputs();
  out.outputs = outputs();
  for (const auto& import : proto.opset_import()) out.opsets.push_back({import.domain(), import.version()});
  out.ir_version = ir_version();
  count_operators(proto.graph(), out);
  count_weights(proto.graph(), out);
  out.dynamic_axes = dynamic_axes_of(out.inputs);
  add_inferred(proto, out);
  out.producer = proto.producer_name() + (proto.producer_version().empty() ? "" : " " + proto.producer_version());
  return out;
}

}  // namespace portwright
