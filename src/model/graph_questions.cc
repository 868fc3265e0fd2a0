// What can be asked of a graph: blocks, nodes, attributes, values.
#include <algorithm>
#include <functional>

#include "model/graph_impl.h"
#include "model/tensors.h"
#include "portwright/graph.h"

namespace portwright {

std::vector<NodeId> Graph::nodes(BlockId block) const {
  std::vector<NodeId> out;
  for (NodeId n = impl_->block(block).first; n != NodeId::none; n = impl_->node(n).next) out.push_back(n);
  return out;
}

std::vector<BlockId> Graph::blocks() const {
  std::vector<BlockId> out{BlockId::top};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (const NodeId node : nodes(out[i]))
      out.insert(out.end(), impl_->node(node).bodies.begin(), impl_->node(node).bodies.end());
  return out;
}

std::vector<BlockId> Graph::bodies(NodeId node) const { return impl_->node(node).bodies; }
std::span<const ValueId> Graph::inputs(BlockId block) const { return impl_->block(block).inputs; }
std::span<const ValueId> Graph::outputs(BlockId block) const { return impl_->block(block).outputs; }

std::size_t Graph::node_count() const {
  return static_cast<std::size_t>(
      std::count_if(impl_->nodes.begin(), impl_->nodes.end(), [](const auto& node) { return node.alive; }));
}

std::int64_t Graph::opset(std::string_view domain) const {
  for (const auto& import : impl_->shell.opset_import())
    if (import.domain() == domain || (domain.empty() && import.domain() == "ai.onnx")) return import.version();
  return 0;
}

std::int64_t Graph::ir_version() const { return impl_->shell.ir_version(); }

bool Graph::alive(NodeId node) const { return impl_->node(node).alive; }
std::string_view Graph::op(NodeId node) const { return impl_->node(node).op; }
std::string_view Graph::domain(NodeId node) const { return impl_->node(node).domain; }
std::string Graph::name(NodeId node) const {
  if (const auto& name = impl_->node(node).proto->name(); !name.empty()) return name;
  for (const ValueId output : outputs(node))
    if (output != ValueId::none) return name(output);
  return std::string(op(node));
}
BlockId Graph::block(NodeId node) const { return impl_->node(node).block; }
std::span<const ValueId> Graph::inputs(NodeId node) const { return impl_->node(node).inputs; }
std::span<const ValueId> Graph::outputs(NodeId node) const { return impl_->node(node).outputs; }
ValueId Graph::input(NodeId node, std::size_t slot) const {
  return slot < inputs(node).size() ? inputs(node)[slot] : ValueId::none;
}
ValueId Graph::output(NodeId node, std::size_t slot) const {
  return slot < outputs(node).size() ? outputs(node)[slot] : ValueId::none;
}

namespace {

const onnx::AttributeProto* find_attribute(const onnx::NodeProto& node, std::string_view name) {
  for (const auto& attribute : node.attribute())
    if (attribute.name() == name) return &attribute;
  return nullptr;
}

onnx::AttributeProto& fresh_attribute(onnx::NodeProto& node, std::string_view name,
                                      onnx::AttributeProto::AttributeType type) {
  onnx::AttributeProto* found = nullptr;
  for (auto& attribute : *node.mutable_attribute())
    if (attribute.name() == name) found = &attribute;
  if (found == nullptr) found = node.add_attribute();
  found->Clear();
  found->set_name(std::string(name));
  found->set_type(type);
  return *found;
}

}  // namespace

bool Graph::has(NodeId node, std::string_view attribute) const {
  return find_attribute(*impl_->node(node).proto, attribute) != nullptr;
}
std::int64_t Graph::integer(NodeId node, std::string_view attribute, std::int64_t otherwise) const {
  const auto* found = find_attribute(*impl_->node(node).proto, attribute);
  return found == nullptr ? otherwise : found->i();
}
float Graph::real(NodeId node, std::string_view attribute, float otherwise) const {
  const auto* found = find_attribute(*impl_->node(node).proto, attribute);
  return found == nullptr ? otherwise : found->f();
}
std::string Graph::text(NodeId node, std::string_view attribute, std::string_view otherwise) const {
  const auto* found = find_attribute(*impl_->node(node).proto, attribute);
  return found == nullptr ? std::string(otherwise) : found->s();
}
std::optional<std::vector<std::int64_t>> Graph::integers(NodeId node, std::string_view attribute) const {
  const auto* found = find_attribute(*impl_->node(node).proto, attribute);
  if (found == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}
void Graph::set(NodeId node, std::string_view attribute, std::int64_t value) {
  fresh_attribute(impl_->editable(node), attribute, onnx::AttributeProto::INT).set_i(value);
}
void Graph::set(NodeId node, std::string_view attribute, float value) {
  fresh_attribute(impl_->editable(node), attribute, onnx::AttributeProto::FLOAT).set_f(value);
}
void Graph::set(NodeId node, std::string_view attribute, std::string_view value) {
  fresh_attribute(impl_->editable(node), attribute, onnx::AttributeProto::STRING).set_s(std::string(value));
}
void Graph::set(NodeId node, std::string_view attribute, const std::vector<std::int64_t>& value) {
  auto& made = fresh_attribute(impl_->editable(node), attribute, onnx::AttributeProto::INTS);
  for (const std::int64_t one : value) made.add_ints(one);
}
void Graph::clear(NodeId node, std::string_view attribute) {
  if (!has(node, attribute)) return;
  auto* all = impl_->editable(node).mutable_attribute();
  all->erase(std::remove_if(all->begin(), all->end(), [&](const auto& one) { return one.name() == attribute; }),
             all->end());
}

std::string Graph::signature(NodeId node) const {
  const auto& from = impl_->node(node);
  if (!from.bodies.empty()) return '@' + std::to_string(at(node));  // bodies are not compared
  std::vector<const onnx::AttributeProto*> attributes;
  for (const auto& attribute : from.proto->attribute()) attributes.push_back(&attribute);
  std::sort(attributes.begin(), attributes.end(), [](const auto* a, const auto* b) { return a->name() < b->name(); });
  std::string key = from.proto->op_type() + '\0' + from.proto->domain() + '\0' + from.proto->overload() + '\0';
  for (const auto* attribute : attributes) {
    onnx::AttributeProto undocumented;
    if (attribute->has_doc_string()) {
      undocumented = *attribute;
      undocumented.clear_doc_string();
      attribute = &undocumented;
    }
    const std::string bytes = attribute->SerializeAsString();
    key += std::to_string(bytes.size()) + ':' + bytes;
  }
  return key + '#' + std::to_string(from.outputs.size());
}

namespace {

std::size_t mixed(std::size_t hash, std::size_t with) {
  return (hash ^ with) * 0x9E3779B97F4A7C15U;  // the bits of the golden ratio
}

std::size_t hash_of(const onnx::AttributeProto& attribute) {
  const std::size_t name = std::hash<std::string>()(attribute.name());
  switch (attribute.type()) {
    case onnx::AttributeProto::INT:
      return mixed(name, std::hash<std::int64_t>()(attribute.i()));
    case onnx::AttributeProto::FLOAT:
      return mixed(name, std::hash<float>()(attribute.f()));
    case onnx::AttributeProto::STRING:
      return mixed(name, std::hash<std::string>()(attribute.s()));
    case onnx::AttributeProto::INTS: {
      std::size_t hash = name;
      for (const std::int64_t one : attribute.ints()) hash = mixed(hash, std::hash<std::int64_t>()(one));
      return hash;
    }
    case onnx::AttributeProto::TENSOR:
      return mixed(name, std::hash<std::string>()(attribute.t().SerializeAsString()));
    default:
      return mixed(name, std::hash<std::string>()(attribute.SerializeAsString()));
  }
}

}  // namespace

std::size_t Graph::signature_hash(NodeId node) const {
  const auto& from = impl_->node(node);
  if (!from.bodies.empty()) return at(node);
  std::size_t attributes = 0;  // a sum, for they have no order
  for (const auto& attribute : from.proto->attribute()) attributes += hash_of(attribute);
  return mixed(mixed(std::hash<std::string_view>()(from.op), attributes), from.outputs.size());
}

const std::string& Graph::name(ValueId value) const {
  static const std::string nothing;
  return value == ValueId::none ? nothing : *impl_->value(value).name;
}
NodeId Graph::producer(ValueId value) const {
  return value == ValueId::none ? NodeId::none : impl_->value(value).producer;
}
BlockId Graph::block(ValueId value) const { return value == ValueId::none ? BlockId::top : impl_->value(value).block; }
std::span<const Use> Graph::uses(ValueId value) const {
  return value == ValueId::none ? std::span<const Use>() : impl_->value(value).uses;
}
bool Graph::is_input(ValueId value) const { return value != ValueId::none && impl_->value(value).input; }
bool Graph::is_output(ValueId value) const {
  const auto uses = this->uses(value);
  return std::any_of(uses.begin(), uses.end(), [](const Use& use) { return use.node == NodeId::none; });
}

std::optional<Dtype> Graph::dtype(ValueId value) const {
  if (value == ValueId::none) return std::nullopt;
  const auto& known = impl_->value(value);
  if (known.constant) return dtype_of(known.constant->data_type());
  if (known.type == nullptr || !known.type->has_tensor_type()) return std::nullopt;
  return dtype_of(known.type->tensor_type().elem_type());
}

std::optional<std::vector<Dimension>> Graph::shape(ValueId value) const {
  if (value == ValueId::none) return std::nullopt;
  const auto& known = impl_->value(value);
  std::vector<Dimension> out;
  if (known.constant) {
    for (const std::int64_t dim : known.constant->dims()) out.push_back({dim, ""});
    return out;
  }
  if (known.type == nullptr || !known.type->has_tensor_type() || !known.type->tensor_type().has_shape())
    return std::nullopt;
  for (const auto& dim : known.type->tensor_type().shape().dim()) {
    Dimension one;
    if (dim.has_dim_value()) one.value = dim.dim_value();
    if (dim.has_dim_param()) one.symbol = dim.dim_param();
    out.push_back(std::move(one));
  }
  return out;
}

std::optional<Shape> Graph::fixed_shape(ValueId value) const {
  const auto dims = shape(value);
  if (!dims) return std::nullopt;
  Shape out;
  for (const Dimension& dim : *dims) {
    if (!dim.value || *dim.value < 0) return std::nullopt;
    out.push_back(*dim.value);
  }
  return out;
}

}  // namespace portwright
