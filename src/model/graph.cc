// From a model to a graph and back.
#include "portwright/graph.h"

#include <algorithm>
#include <unordered_map>

#include "model/graph_impl.h"

namespace portwright {
namespace {

using Impl = Graph::Impl;

// Copies of all fields but the large ones, which are taken apart. What this version of ONNX does not know is copied
// too.
onnx::ModelProto without_graph(const onnx::ModelProto& from) {
  onnx::ModelProto out;
  if (from.has_ir_version()) out.set_ir_version(from.ir_version());
  if (from.has_producer_name()) out.set_producer_name(from.producer_name());
  if (from.has_producer_version()) out.set_producer_version(from.producer_version());
  if (from.has_domain()) out.set_domain(from.domain());
  if (from.has_model_version()) out.set_model_version(from.model_version());
  if (from.has_doc_string()) out.set_doc_string(from.doc_string());
  *out.mutable_opset_import() = from.opset_import();
  *out.mutable_metadata_props() = from.metadata_props();
  *out.mutable_training_info() = from.training_info();
  *out.mutable_functions() = from.functions();
  *out.mutable_configuration() = from.configuration();
  out.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
  return out;
}

// All fields of a graph but its contents and its declared types.
void copy_shell(const onnx::GraphProto& from, Form form, onnx::GraphProto& to) {
  if (from.has_name()) to.set_name(from.name());
  *to.mutable_sparse_initializer() = from.sparse_initializer();
  if (form == Form::bare) return;
  if (from.has_doc_string()) to.set_doc_string(from.doc_string());
  *to.mutable_quantization_annotation() = from.quantization_annotation();
  *to.mutable_metadata_props() = from.metadata_props();
  to.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
}

// Takes a GraphProto, which lives as long as the Graph, apart. Definitions of a block come first, so that uses find
// them whatever the order of nodes.
class Builder {
 public:
  explicit Builder(Impl& impl) : impl_(impl) {}

  BlockId block(const onnx::GraphProto& graph, NodeId owner) {
    const auto id = static_cast<BlockId>(impl_.blocks.size());
    impl_.blocks.emplace_back();
    impl_.block(id).owner = owner;
    impl_.block(id).shell = &graph;
    scopes_.emplace_back();
    define_constants(graph, id);
    define_nodes(graph, id);
    for (std::uint32_t slot = 0; const auto& output : graph.output()) {
      const ValueId value = output.name().empty() ? impl_.new_value(output.name(), id) : resolve(output.name());
      impl_.block(id).outputs.push_back(value);
      impl_.block(id).output_places.push_back(0);
      impl_.block(id).output_infos.push_back(output);
      impl_.add_use(value, {NodeId::none, id, slot++});
    }
    scopes_.pop_back();
    return id;
  }

 private:
  ValueId define(const std::string& name, BlockId block) {
    const ValueId value = impl_.new_value(name, block);
    scopes_.back()[name] = value;
    return value;
  }

  ValueId resolve(const std::string& name) {
    if (name.empty()) return ValueId::none;
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    const ValueId value = impl_.new_value(name, BlockId::top);  // nothing defines it: left as it is
    scopes_.front()[name] = value;
    return value;
  }

  void define_constants(const onnx::GraphProto& graph, BlockId id) {
    for (const auto& input : graph.input()) {
      const ValueId value = define(input.name(), id);
      impl_.value(value).input = true;
      if (input.has_type()) impl_.value(value).type = &input.type();
      impl_.block(id).inputs.push_back(value);
      impl_.block(id).input_infos.push_back(input);
    }
    for (const auto& tensor : graph.initializer()) {
      const auto known = scopes_.back().find(tensor.name());
      const ValueId value = known == scopes_.back().end() ? define(tensor.name(), id) : known->second;
      impl_.value(value).constant = {std::shared_ptr<const onnx::TensorProto>(), &tensor};
      impl_.block(id).initializers.push_back(value);
    }
  }

  void define_nodes(const onnx::GraphProto& graph, BlockId id) {
    const std::size_t first = impl_.nodes.size();
    impl_.nodes.resize(first + static_cast<std::size_t>(graph.node_size()));
    for (std::size_t i = first; const auto& proto : graph.node()) {
      const auto node = static_cast<NodeId>(i++);
      impl_.node(node).proto = impl_.node(node).remarks = &proto;
      impl_.take_operator(node);
      impl_.link_before(node, id, NodeId::none);
      for (const auto& name : proto.output()) {
        const ValueId value = name.empty() ? ValueId::none : define(name, id);
        impl_.node(node).outputs.push_back(value);
        if (value != ValueId::none) impl_.value(value).producer = node;
      }
    }
    for (std::size_t i = first; const auto& proto : graph.node()) define_reads(static_cast<NodeId>(i++), proto);
  }

  void define_reads(NodeId id, const onnx::NodeProto& proto) {
    for (std::uint32_t slot = 0; const auto& name : proto.input()) {
      const ValueId value = resolve(name);
      impl_.node(id).inputs.push_back(value);
      impl_.node(id).places.push_back(0);
      if (value != ValueId::none) impl_.add_use(value, {id, BlockId::none, slot});
      ++slot;
    }
    for (const auto& attribute : proto.attribute()) {
      if (attribute.has_g()) add_body(id, attribute.g());
      for (const auto& graph : attribute.graphs()) add_body(id, graph);
    }
  }

  void add_body(NodeId id, const onnx::GraphProto& graph) {
    const BlockId body = block(graph, id);
    impl_.node(id).bodies.push_back(body);
  }

  Impl& impl_;
  std::vector<std::unordered_map<std::string_view, ValueId>> scopes_;
};

}  // namespace

Graph::Graph(const Model& model) : impl_(std::make_unique<Impl>(model)) {
  const auto& proto = impl_->base.impl().proto;
  impl_->shell = without_graph(proto);
  Builder(*impl_).block(proto.graph(), NodeId::none);
}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

// --- back to protobuf

void Impl::write(NodeId id, Form form, onnx::NodeProto& out) const {
  const Node& from = node(id);
  copy_operator(*from.proto, out);
  if (form == Form::whole && from.remarks != nullptr) {
    if (from.remarks->has_doc_string()) out.set_doc_string(from.remarks->doc_string());
    *out.mutable_metadata_props() = from.remarks->metadata_props();
  }
  for (const ValueId input : from.inputs)
    *out.add_input() = input == ValueId::none ? std::string() : *value(input).name;
  for (const ValueId output : from.outputs)
    *out.add_output() = output == ValueId::none ? std::string() : *value(output).name;
  auto body = from.bodies.begin();
  for (auto& attribute : *out.mutable_attribute()) {
    if (attribute.has_g()) write(*body++, form, *attribute.mutable_g());
    for (auto& graph : *attribute.mutable_graphs()) write(*body++, form, graph);
  }
}

void Impl::write(BlockId id, Form form, onnx::GraphProto& out) const {
  const Block& from = block(id);
  copy_shell(*from.shell, form, out);
  for (NodeId n = from.first; n != NodeId::none; n = node(n).next) write(n, form, *out.add_node());
  for (const ValueId constant : from.initializers) {
    copy(*value(constant).constant, form, *out.add_initializer());
    out.mutable_initializer(out.initializer_size() - 1)->set_name(*value(constant).name);
  }
  for (std::size_t i = 0; i < from.inputs.size(); ++i) *out.add_input() = from.input_infos[i];
  for (std::size_t i = 0; i < from.outputs.size(); ++i) {
    *out.add_output() = from.output_infos[i];
    out.mutable_output(static_cast<int>(i))->set_name(*value(from.outputs[i]).name);
  }
  const auto& declared = from.declared ? *from.declared : from.shell->value_info();
  if (declared.empty()) return;
  std::unordered_set<std::string_view> here;
  for (const auto& each : out.node()) here.insert(each.output().begin(), each.output().end());
  for (const auto& each : out.initializer()) here.insert(each.name());
  for (const auto& info : declared)
    if (here.contains(info.name())) *out.add_value_info() = info;
}

Model Graph::model() const {
  onnx::ModelProto proto = impl_->shell;
  impl_->write(BlockId::top, Form::whole, *proto.mutable_graph());
  return impl_->wrapped(std::move(proto));
}

Model Graph::piece(std::span<const NodeId> nodes, std::span<const ValueId> inputs,
                   std::span<const ValueId> outputs) const {
  onnx::ModelProto proto = impl_->shell;
  auto& graph = *proto.mutable_graph();
  graph.set_name(impl_->block(BlockId::top).shell->name());
  std::unordered_set<std::uint32_t> taken;
  const auto bring_constants = [&](std::span<const ValueId> values) {
    for (const ValueId value : values) {
      if (value == ValueId::none || !impl_->value(value).constant) continue;
      if (!taken.insert(static_cast<std::uint32_t>(value)).second) continue;
      *graph.add_initializer() = *impl_->value(value).constant;
      graph.mutable_initializer(graph.initializer_size() - 1)->set_name(name(value));
    }
  };
  const std::function<void(NodeId)> bring = [&](NodeId node) {
    bring_constants(this->inputs(node));
    for (const BlockId body : bodies(node)) {
      for (const NodeId inner : this->nodes(body)) bring(inner);
      bring_constants(this->outputs(body));
    }
  };
  for (const ValueId input : inputs) taken.insert(static_cast<std::uint32_t>(input));
  for (const NodeId node : nodes) {
    impl_->write(node, Form::whole, *graph.add_node());
    bring(node);
  }
  bring_constants(outputs);
  const auto describe = [&](ValueId value, onnx::ValueInfoProto& info) {
    info.set_name(name(value));
    if (const auto* type = impl_->value(value).type) *info.mutable_type() = *type;
  };
  for (const ValueId input : inputs) describe(input, *graph.add_input());
  for (const ValueId output : outputs) describe(output, *graph.add_output());
  for (auto& tensor : *graph.mutable_initializer()) impl_->bring_inside(tensor);
  return impl_->wrapped(std::move(proto));
}

}  // namespace portwright
