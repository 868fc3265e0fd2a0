#include "model/uses.h"

#include <cstring>

#include "model/tensors.h"

namespace portwright {

Uses::Uses(const onnx::GraphProto& graph) {
  for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
  for (const auto& node : graph.node())
    for (const auto& output : node.output())
      if (!output.empty()) producers_[output] = &node;
  for_each_graph(graph, [&](const onnx::GraphProto& each) {
    for (const auto& output : each.output()) ++readers_[output.name()];
    for (const auto& node : each.node())
      for (const auto& input : node.input()) ++readers_[input];
  });
}

std::size_t Uses::readers(const std::string& value) const {
  const auto found = readers_.find(value);
  return found == readers_.end() ? 0 : found->second;
}

const onnx::NodeProto* Uses::producer(const std::string& value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? nullptr : found->second;
}

const onnx::TensorProto* Uses::constant(const std::string& value) const {
  if (const auto found = initializers_.find(value); found != initializers_.end()) return found->second;
  const auto* node = producer(value);
  if (node == nullptr || node->op_type() != "Constant") return nullptr;
  for (const auto& attribute : node->attribute())
    if (attribute.has_t()) return &attribute.t();
  return nullptr;
}

std::int64_t integer_attribute(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return attribute.i();
  return otherwise;
}

namespace {

template <class T>
std::vector<std::int64_t> widened(const std::string& raw) {
  std::vector<std::int64_t> out;
  for (std::size_t at = 0; at + sizeof(T) <= raw.size(); at += sizeof(T)) {
    T value{};
    std::memcpy(&value, raw.data() + at, sizeof(T));
    out.push_back(value);
  }
  return out;
}

}  // namespace

std::optional<std::vector<std::int64_t>> integers_of(const onnx::TensorProto& tensor) {
  if (is_external(tensor)) return std::nullopt;
  const std::string& raw = tensor.raw_data();
  switch (tensor.data_type()) {
    case onnx::TensorProto::INT64:
      if (raw.empty()) return std::vector<std::int64_t>(tensor.int64_data().begin(), tensor.int64_data().end());
      return widened<std::int64_t>(raw);
    case onnx::TensorProto::INT32:
    case onnx::TensorProto::BOOL:
      if (raw.empty()) return std::vector<std::int64_t>(tensor.int32_data().begin(), tensor.int32_data().end());
      return tensor.data_type() == onnx::TensorProto::INT32 ? widened<std::int32_t>(raw) : widened<std::int8_t>(raw);
    default:
      return std::nullopt;
  }
}

}  // namespace portwright
