// Types, shapes and known integers of a graph, by the ONNX library.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "model/graph_impl.h"
#include "model/inference.h"
#include "portwright/graph.h"

namespace portwright {

namespace {

void take_types(Graph::Impl& impl, BlockId id, const onnx::GraphProto& graph) {
  std::unordered_map<std::string_view, const onnx::TypeProto*> types;
  const auto add = [&](const auto& infos) {
    for (const auto& info : infos)
      if (info.has_type()) types[info.name()] = &info.type();
  };
  add(graph.value_info());
  add(graph.output());
  auto node = impl.block(id).first;
  for (const auto& proto : graph.node()) {
    for (const ValueId output : impl.node(node).outputs) {
      if (output == ValueId::none) continue;
      const auto found = types.find(*impl.value(output).name);
      impl.value(output).type = found == types.end() ? nullptr : found->second;
    }
    auto body = impl.node(node).bodies.begin();
    for (const auto& attribute : proto.attribute()) {
      if (attribute.has_g()) take_types(impl, *body++, attribute.g());
      for (const auto& inner : attribute.graphs()) take_types(impl, *body++, inner);
    }
    node = impl.node(node).next;
  }
}

// What propagation knows about a value, as the elements of an int64 scalar or vector of known rank.
std::optional<std::vector<std::int64_t>> propagated(const onnx::TensorShapeProto& known, const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type() || type->tensor_type().elem_type() != onnx::TensorProto::INT64)
    return std::nullopt;
  if (!type->tensor_type().has_shape() || type->tensor_type().shape().dim_size() > 1) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const auto& dim : known.dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    out.push_back(dim.dim_value());
  }
  const auto& shape = type->tensor_type().shape();
  const std::int64_t wanted = shape.dim_size() == 0 ? 1 : shape.dim(0).has_dim_value() ? shape.dim(0).dim_value() : -1;
  if (static_cast<std::int64_t>(out.size()) != wanted) return std::nullopt;
  return out;
}

// Declared types of what the standard does not define are all there is; others are inferred anew.
void drop_inferable(onnx::GraphProto& graph) {
  std::unordered_set<std::string_view> opaque;
  for (const auto& node : graph.node())
    if (!node.domain().empty() && node.domain() != "ai.onnx") opaque.insert(node.output().begin(), node.output().end());
  auto* infos = graph.mutable_value_info();
  infos->erase(
      std::remove_if(infos->begin(), infos->end(), [&](const auto& info) { return !opaque.contains(info.name()); }),
      infos->end());
}

// Whether a declared type cannot be what inference finds.
bool contradicts(const onnx::GraphProto& declared, const onnx::GraphProto& inferred) {
  std::unordered_map<std::string_view, const onnx::TypeProto*> types;
  for (const auto& info : inferred.value_info()) types[info.name()] = &info.type();
  return std::any_of(declared.value_info().begin(), declared.value_info().end(), [&](const auto& info) {
    const auto found = types.find(info.name());
    if (found == types.end() || !info.type().has_tensor_type() || !found->second->has_tensor_type()) return false;
    const auto& ours = info.type().tensor_type();
    const auto& theirs = found->second->tensor_type();
    if (ours.elem_type() != theirs.elem_type()) return true;
    if (!ours.has_shape() || !theirs.has_shape()) return false;
    if (ours.shape().dim_size() != theirs.shape().dim_size()) return true;
    for (int i = 0; i < ours.shape().dim_size(); ++i) {
      const auto &a = ours.shape().dim(i), &b = theirs.shape().dim(i);
      if (a.has_dim_value() && b.has_dim_value() && a.dim_value() != b.dim_value()) return true;
    }
    return false;
  });
}

}  // namespace

void Graph::infer() {
  for (auto& value : impl_->values)
    if (!value.input) value.type = nullptr;  // it lies in what is thrown away now
  impl_->inferred = WorkingCopy();
  auto& proto = impl_->inferred.model();
  copy_bare_shell(impl_->shell, proto);
  impl_->write(BlockId::top, Form::bare, *proto.mutable_graph());
  if (proto.graph().value_info().empty()) impl_->declared_trusted = true;  // there is nothing to distrust
  if (!impl_->declared_trusted) {
    WorkingCopy bare;
    bare.model() = proto;
    drop_inferable(*bare.model().mutable_graph());
    infer_types(bare.model());
    impl_->declared_trusted = !contradicts(proto.graph(), bare.model().graph());
  }
  if (!*impl_->declared_trusted) drop_inferable(*proto.mutable_graph());
  const auto values = infer_types(proto);
  take_types(*impl_, BlockId::top, proto.graph());
  for (const NodeId node : nodes())
    for (const ValueId output : outputs(node)) {
      if (output == ValueId::none) continue;
      const auto found = values.find(name(output));
      auto& value = impl_->value(output);
      value.known = found == values.end() ? std::nullopt : propagated(found->second, value.type);
    }
}

void Graph::declare_outputs() {
  auto& top = impl_->block(BlockId::top);
  for (auto& info : top.output_infos)
    if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::GraphProto declared;
  impl_->write(BlockId::top, Form::bare, declared);
  drop_inferable(declared);
  top.declared = declared.value_info();
  infer();
  for (std::size_t i = 0; i < top.outputs.size(); ++i)
    if (const auto* type = impl_->value(top.outputs[i]).type) *top.output_infos[i].mutable_type() = *type;
}

}  // namespace portwright
