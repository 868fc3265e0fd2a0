// From a model to a graph and back, and what can be asked of it.
#include "portwright/graph.h"

#include <algorithm>
#include <unordered_map>

#include "model/graph_impl.h"
#include "model/inference.h"
#include "model/origin.h"
#include "model/stream.h"
#include "model/tensors.h"
#include "model/types.h"
#include "model/uses.h"

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

onnx::GraphProto without_contents(const onnx::GraphProto& from) {
  onnx::GraphProto out;
  if (from.has_name()) out.set_name(from.name());
  if (from.has_doc_string()) out.set_doc_string(from.doc_string());
  *out.mutable_sparse_initializer() = from.sparse_initializer();
  *out.mutable_value_info() = from.value_info();
  *out.mutable_quantization_annotation() = from.quantization_annotation();
  *out.mutable_metadata_props() = from.metadata_props();
  out.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
  return out;
}

onnx::NodeProto without_remarks(const onnx::NodeProto& from) {
  onnx::NodeProto out;
  if (from.has_name()) out.set_name(from.name());
  if (from.has_op_type()) out.set_op_type(from.op_type());
  if (from.has_domain()) out.set_domain(from.domain());
  if (from.has_overload()) out.set_overload(from.overload());
  *out.mutable_attribute() = from.attribute();
  *out.mutable_device_configurations() = from.device_configurations();
  out.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
  return out;
}

// Takes a GraphProto apart. Definitions of a block come first, so that uses find them whatever the order of nodes.
class Builder {
 public:
  explicit Builder(Impl& impl) : impl_(impl) {}

  BlockId block(const onnx::GraphProto& graph, NodeId owner) {
    const auto id = static_cast<BlockId>(impl_.blocks.size());
    impl_.blocks.emplace_back();
    impl_.block(id).owner = owner;
    scopes_.emplace_back();
    define_constants(graph, id);
    define_nodes(graph, id);
    for (std::uint32_t slot = 0; const auto& output : graph.output()) {
      const ValueId value = output.name().empty() ? impl_.new_value("", id) : resolve(output.name());
      impl_.block(id).outputs.push_back(value);
      impl_.block(id).output_places.push_back(0);
      impl_.block(id).output_infos.push_back(output);
      impl_.add_use(value, {NodeId::none, id, slot++});
    }
    scopes_.pop_back();
    impl_.block(id).shell = without_contents(graph);
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
      if (input.has_type()) impl_.value(value).type = std::make_unique<onnx::TypeProto>(input.type());
      impl_.block(id).inputs.push_back(value);
      impl_.block(id).input_infos.push_back(input);
    }
    for (const auto& tensor : graph.initializer()) {
      const auto known = scopes_.back().find(tensor.name());
      const ValueId value = known == scopes_.back().end() ? define(tensor.name(), id) : known->second;
      impl_.value(value).constant = std::make_unique<onnx::TensorProto>(tensor);
      impl_.block(id).initializers.push_back(value);
    }
  }

  void define_nodes(const onnx::GraphProto& graph, BlockId id) {
    const std::size_t first = impl_.nodes.size();
    impl_.nodes.resize(first + static_cast<std::size_t>(graph.node_size()));
    for (std::size_t i = first; const auto& proto : graph.node()) {
      const auto node = static_cast<NodeId>(i++);
      impl_.node(node).proto = without_remarks(proto);
      impl_.node(node).remarks = &proto;
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
    for (auto& attribute : *impl_.node(id).proto.mutable_attribute()) {
      if (attribute.has_g()) attribute.mutable_g()->Clear();
      for (auto& graph : *attribute.mutable_graphs()) graph.Clear();
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
  std::vector<std::unordered_map<std::string, ValueId>> scopes_;
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

onnx::NodeProto Impl::node_proto(NodeId id, Remarks remarks) const {
  const Node& from = node(id);
  onnx::NodeProto out = from.proto;
  if (remarks == Remarks::kept && from.remarks != nullptr) {
    if (from.remarks->has_doc_string()) out.set_doc_string(from.remarks->doc_string());
    *out.mutable_metadata_props() = from.remarks->metadata_props();
  }
  const auto name_of = [&](ValueId v) { return v == ValueId::none ? std::string() : value(v).name; };
  for (const ValueId input : from.inputs) out.add_input(name_of(input));
  for (const ValueId output : from.outputs) out.add_output(name_of(output));
  auto body = from.bodies.begin();
  for (auto& attribute : *out.mutable_attribute()) {
    if (attribute.has_g()) *attribute.mutable_g() = graph_proto(*body++, remarks);
    for (auto& graph : *attribute.mutable_graphs()) graph = graph_proto(*body++, remarks);
  }
  return out;
}

onnx::GraphProto Impl::graph_proto(BlockId id, Remarks remarks) const {
  const Block& from = block(id);
  onnx::GraphProto out = from.shell;
  std::unordered_set<std::string_view> here;
  for (NodeId n = from.first; n != NodeId::none; n = node(n).next) {
    *out.add_node() = node_proto(n, remarks);
    for (const ValueId output : node(n).outputs)
      if (output != ValueId::none) here.insert(value(output).name);
  }
  for (const ValueId constant : from.initializers) {
    *out.add_initializer() = *value(constant).constant;
    out.mutable_initializer(out.initializer_size() - 1)->set_name(value(constant).name);
    here.insert(value(constant).name);
  }
  for (std::size_t i = 0; i < from.inputs.size(); ++i) *out.add_input() = from.input_infos[i];
  for (std::size_t i = 0; i < from.outputs.size(); ++i) {
    *out.add_output() = from.output_infos[i];
    out.mutable_output(static_cast<int>(i))->set_name(value(from.outputs[i]).name);
  }
  auto* infos = out.mutable_value_info();
  infos->erase(
      std::remove_if(infos->begin(), infos->end(), [&](const auto& info) { return !here.contains(info.name()); }),
      infos->end());
  return out;
}

onnx::ModelProto Impl::model_proto(Remarks remarks) const {
  onnx::ModelProto proto = shell;
  *proto.mutable_graph() = graph_proto(BlockId::top, remarks);
  return proto;
}

Model Graph::model() const { return impl_->wrapped(impl_->model_proto(Impl::Remarks::kept)); }

Model Graph::piece(std::span<const NodeId> nodes, std::span<const ValueId> inputs,
                   std::span<const ValueId> outputs) const {
  onnx::ModelProto proto = impl_->shell;
  auto& graph = *proto.mutable_graph();
  graph.set_name(impl_->block(BlockId::top).shell.name());
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
    *graph.add_node() = impl_->node_proto(node);
    bring(node);
  }
  bring_constants(outputs);
  const auto describe = [&](ValueId value, onnx::ValueInfoProto& info) {
    info.set_name(name(value));
    if (const auto& type = impl_->value(value).type) *info.mutable_type() = *type;
  };
  for (const ValueId input : inputs) describe(input, *graph.add_input());
  for (const ValueId output : outputs) describe(output, *graph.add_output());
  for (auto& tensor : *graph.mutable_initializer()) impl_->bring_inside(tensor);
  return impl_->wrapped(std::move(proto));
}

// --- questions

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
std::string_view Graph::op(NodeId node) const { return impl_->node(node).proto.op_type(); }
std::string_view Graph::domain(NodeId node) const {
  const std::string& domain = impl_->node(node).proto.domain();
  return domain == "ai.onnx" ? std::string_view() : std::string_view(domain);
}
std::string Graph::name(NodeId node) const {
  if (const auto& name = impl_->node(node).proto.name(); !name.empty()) return name;
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
  return find_attribute(impl_->node(node).proto, attribute) != nullptr;
}
std::int64_t Graph::integer(NodeId node, std::string_view attribute, std::int64_t otherwise) const {
  const auto* found = find_attribute(impl_->node(node).proto, attribute);
  return found == nullptr ? otherwise : found->i();
}
float Graph::real(NodeId node, std::string_view attribute, float otherwise) const {
  const auto* found = find_attribute(impl_->node(node).proto, attribute);
  return found == nullptr ? otherwise : found->f();
}
std::string Graph::text(NodeId node, std::string_view attribute, std::string_view otherwise) const {
  const auto* found = find_attribute(impl_->node(node).proto, attribute);
  return found == nullptr ? std::string(otherwise) : found->s();
}
std::optional<std::vector<std::int64_t>> Graph::integers(NodeId node, std::string_view attribute) const {
  const auto* found = find_attribute(impl_->node(node).proto, attribute);
  if (found == nullptr) return std::nullopt;
  return std::vector<std::int64_t>(found->ints().begin(), found->ints().end());
}
void Graph::set(NodeId node, std::string_view attribute, std::int64_t value) {
  fresh_attribute(impl_->node(node).proto, attribute, onnx::AttributeProto::INT).set_i(value);
}
void Graph::set(NodeId node, std::string_view attribute, float value) {
  fresh_attribute(impl_->node(node).proto, attribute, onnx::AttributeProto::FLOAT).set_f(value);
}
void Graph::set(NodeId node, std::string_view attribute, std::string_view value) {
  fresh_attribute(impl_->node(node).proto, attribute, onnx::AttributeProto::STRING).set_s(std::string(value));
}
void Graph::set(NodeId node, std::string_view attribute, const std::vector<std::int64_t>& value) {
  auto& made = fresh_attribute(impl_->node(node).proto, attribute, onnx::AttributeProto::INTS);
  for (const std::int64_t one : value) made.add_ints(one);
}
void Graph::clear(NodeId node, std::string_view attribute) {
  auto* all = impl_->node(node).proto.mutable_attribute();
  all->erase(std::remove_if(all->begin(), all->end(), [&](const auto& one) { return one.name() == attribute; }),
             all->end());
}

std::string Graph::signature(NodeId node) const {
  const auto& from = impl_->node(node);
  onnx::NodeProto plain;
  plain.set_op_type(from.proto.op_type());
  plain.set_domain(from.proto.domain());
  plain.set_overload(from.proto.overload());
  *plain.mutable_attribute() = from.proto.attribute();
  for (auto& attribute : *plain.mutable_attribute()) attribute.clear_doc_string();
  std::sort(plain.mutable_attribute()->begin(), plain.mutable_attribute()->end(),
            [](const auto& a, const auto& b) { return a.name() < b.name(); });
  std::string key = plain.SerializeAsString();
  key += '#' + std::to_string(from.outputs.size());
  if (!from.bodies.empty()) key += '@' + std::to_string(at(node));  // bodies are not compared
  return key;
}

const std::string& Graph::name(ValueId value) const {
  static const std::string nothing;
  return value == ValueId::none ? nothing : impl_->value(value).name;
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
  if (!known.type || !known.type->has_tensor_type()) return std::nullopt;
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
  if (!known.type || !known.type->has_tensor_type() || !known.type->tensor_type().has_shape()) return std::nullopt;
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

// --- constants

bool Graph::is_constant(ValueId value) const {
  if (value == ValueId::none) return false;
  const auto& known = impl_->value(value);
  return known.constant && (!known.input || ir_version() < 4);
}

std::vector<ValueId> Graph::constants() const {
  std::vector<ValueId> out;
  for (const BlockId block : blocks())
    for (const ValueId value : impl_->block(block).initializers)
      if (is_constant(value)) out.push_back(value);
  return out;
}

std::uint64_t Graph::constant_bytes(ValueId value) const {
  if (!is_constant(value)) return 0;
  const auto& tensor = *impl_->value(value).constant;
  return raw_bytes(tensor.data_type(), tensor.dims()).value_or(tensor.ByteSizeLong());
}

Result<Tensor> Graph::constant(ValueId value) const {
  if (!is_constant(value))
    return fail({Fault::defect, "rewrite", "no_constant", "'" + name(value) + "' is no constant", name(value), "", ""});
  return impl_->read(*impl_->value(value).constant);
}

std::optional<std::vector<std::int64_t>> Graph::known_integers(ValueId value) const {
  if (value == ValueId::none) return std::nullopt;
  if (is_constant(value)) return integers_of(*impl_->value(value).constant);
  return impl_->value(value).known;
}

namespace {

// Whether the first bytes of a large tensor are equal elements; most that are not all equal show it here.
bool starts_uniform(const Model& owner, const onnx::TensorProto& tensor) {
  const std::size_t size = size_of(*dtype_of(tensor.data_type()));
  const auto range = range_of(owner.impl(), tensor);
  std::string head;
  const auto take = [&](auto bytes) -> Status {
    head.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
  if (!range || !read_chunks({range->file, range->offset, std::min<std::uint64_t>(range->size, size * 16)}, take))
    return false;
  for (std::size_t i = size; i < head.size(); ++i)
    if (head[i] != head[i - size]) return false;
  return true;
}

}  // namespace

std::optional<double> Graph::splat(ValueId value) const {
  if (!is_constant(value) || !dtype(value) || !is_float(*dtype(value))) return std::nullopt;
  const auto& tensor = *impl_->value(value).constant;
  if (is_external(tensor) && !starts_uniform(impl_->wrapped({}), tensor)) return std::nullopt;
  const auto read = constant(value);
  if (!read || !is_float(read->dtype()) || read->count() == 0) return std::nullopt;
  const Tensor wide = converted(*read, Dtype::f64);
  const auto all = wide.as<double>();
  for (const double one : all)
    if (!(one == all[0])) return std::nullopt;
  return all[0];
}

Result<std::string> Graph::sample(ValueId value) const {
  constexpr std::uint64_t kPart = 64;
  const auto& tensor = *impl_->value(value).constant;
  std::string key = std::to_string(tensor.data_type()) + ':';
  for (const std::int64_t dim : tensor.dims()) key += std::to_string(dim) + ',';
  if (!is_external(tensor)) {
    PW_TRY(read, impl_->read(tensor));
    return key + std::string(reinterpret_cast<const char*>(read.bytes().data()), read.bytes().size());
  }
  const Model owner = impl_->wrapped({});
  PW_TRY(range, range_of(owner.impl(), tensor));
  const std::uint64_t last = range.size - std::min(range.size, kPart);
  for (const std::uint64_t start : {std::uint64_t{0}, last / 2, last})
    PW_CHECK(read_chunks({range.file, range.offset + start, std::min(range.size, kPart)}, [&](auto bytes) -> Status {
      key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }));
  return key;
}

Result<bool> Graph::same_constant(ValueId a, ValueId b) const {
  const auto& one = *impl_->value(a).constant;
  const auto& other = *impl_->value(b).constant;
  const bool same_dims = std::equal(one.dims().begin(), one.dims().end(), other.dims().begin(), other.dims().end());
  if (one.data_type() != other.data_type() || !same_dims) return false;
  if (is_external(one) && is_external(other)) {
    const Placement here = placement_of(one), there = placement_of(other);
    if (here.location == there.location && here.offset == there.offset && here.length == there.length) return true;
  }
  PW_TRY(left, impl_->read(one));
  PW_TRY(right, impl_->read(other));
  return std::equal(left.bytes().begin(), left.bytes().end(), right.bytes().begin(), right.bytes().end());
}

// --- inference

namespace {

void take_types(Impl& impl, BlockId id, const onnx::GraphProto& graph) {
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
      const auto found = types.find(impl.value(output).name);
      impl.value(output).type = found == types.end() ? nullptr : std::make_unique<onnx::TypeProto>(*found->second);
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
  onnx::ModelProto proto = impl_->model_proto(Impl::Remarks::dropped);
  if (!impl_->declared_trusted) {
    onnx::ModelProto bare = proto;
    drop_inferable(*bare.mutable_graph());
    infer_types(bare);
    impl_->declared_trusted = !contradicts(proto.graph(), bare.graph());
  }
  if (!*impl_->declared_trusted) drop_inferable(*proto.mutable_graph());
  const auto values = infer_types(proto);
  take_types(*impl_, BlockId::top, proto.graph());
  for (const NodeId node : nodes())
    for (const ValueId output : outputs(node)) {
      if (output == ValueId::none) continue;
      const auto found = values.find(name(output));
      auto& value = impl_->value(output);
      value.known = found == values.end() ? std::nullopt : propagated(found->second, value.type.get());
    }
}

void Graph::declare_outputs() {
  auto& top = impl_->block(BlockId::top);
  for (auto& info : top.output_infos)
    if (info.type().has_tensor_type()) info.mutable_type()->mutable_tensor_type()->clear_shape();
  onnx::GraphProto declared = impl_->graph_proto(BlockId::top, Impl::Remarks::dropped);
  drop_inferable(declared);
  *top.shell.mutable_value_info() = declared.value_info();
  infer();
  for (std::size_t i = 0; i < top.outputs.size(); ++i)
    if (const auto& type = impl_->value(top.outputs[i]).type) *top.output_infos[i].mutable_type() = *type;
}

}  // namespace portwright
