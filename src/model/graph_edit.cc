// Changes of a graph, and the constants that changes make.
#include <algorithm>
#include <utility>

#include "base/files.h"
#include "model/graph_impl.h"
#include "model/tensors.h"
#include "portwright/graph.h"

namespace portwright {
namespace fs = std::filesystem;

using Impl = Graph::Impl;

struct Impl::Scratch {
  ScratchFolder folder;
  std::map<std::string, WeightFile> files;  // by location
};

// --- links

ValueId Impl::new_value(const std::string& stable_name, BlockId block) {
  const auto id = static_cast<ValueId>(values.size());
  if (taken_names) taken_names->insert(stable_name);
  values.emplace_back();
  values.back().name = &stable_name;
  values.back().block = block;
  return id;
}

const std::string& Impl::keep(std::string name) { return made_names.emplace_back(std::move(name)); }

const std::string& Impl::fresh_name(std::string_view wanted) {
  if (!taken_names) {
    taken_names.emplace();
    for (const Value& each : values) taken_names->insert(*each.name);
  }
  std::string name(wanted);
  for (int i = 2; taken_names->contains(name); ++i) name = std::string(wanted) + "_" + std::to_string(i);
  const std::string& kept = keep(std::move(name));
  taken_names->insert(kept);
  return kept;
}

void Impl::take_operator(NodeId id) {
  Node& known = node(id);
  known.op = interned(known.proto->op_type());
  if (known.proto->domain() != "ai.onnx") known.domain = interned(known.proto->domain());
}

onnx::NodeProto& Impl::editable(NodeId id) {
  Node& edited = node(id);
  if (!edited.own) {
    edited.own = std::make_unique<onnx::NodeProto>();
    if (edited.proto != nullptr) copy_operator(*edited.proto, *edited.own);
    edited.proto = edited.own.get();
  }
  return *edited.own;
}

std::uint32_t& Impl::place_of(const Use& use) {
  return use.node == NodeId::none ? block(use.block).output_places[use.slot] : node(use.node).places[use.slot];
}

void Impl::add_use(ValueId id, const Use& use) {
  auto& uses = value(id).uses;
  place_of(use) = static_cast<std::uint32_t>(uses.size());
  uses.push_back(use);
}

void Impl::drop_use(ValueId id, const Use& use) {
  auto& uses = value(id).uses;
  const std::uint32_t place = place_of(use);
  uses[place] = uses.back();
  place_of(uses[place]) = place;
  uses.pop_back();
}

void Impl::link_before(NodeId id, BlockId where, NodeId place) {
  Block& home = block(where);
  const NodeId before = place == NodeId::none ? home.last : node(place).previous;
  node(id).block = where;
  node(id).previous = before;
  node(id).next = place;
  (before == NodeId::none ? home.first : node(before).next) = id;
  (place == NodeId::none ? home.last : node(place).previous) = id;
}

void Impl::unlink(NodeId id) {
  Node& gone = node(id);
  Block& home = block(gone.block);
  (gone.previous == NodeId::none ? home.first : node(gone.previous).next) = gone.next;
  (gone.next == NodeId::none ? home.last : node(gone.next).previous) = gone.previous;
  gone.previous = gone.next = NodeId::none;
}

// --- constants

onnx::TensorProto Impl::stored(std::string name, const Tensor& tensor) {
  onnx::TensorProto out;
  out.set_data_type(onnx_type_of(tensor.dtype()));
  for (const std::int64_t dim : tensor.shape()) out.add_dims(dim);
  const auto* data = reinterpret_cast<const char*>(tensor.bytes().data());
  if (tensor.bytes().size() >= kLargeTensor) {
    if (!scratch) {
      if (auto folder = ScratchFolder::make("portwright-weights"))
        scratch = std::make_shared<Scratch>(Scratch{std::move(*folder), {}});
    }
    // A file each: a file that grows would no longer be the one that a model was made of.
    const std::string location = "portwright-constant-" + std::to_string(scratch ? scratch->files.size() : 0);
    const fs::path file = scratch ? scratch->folder.path() / location : fs::path();
    if (scratch && write_atomically(file, std::string_view(data, tensor.bytes().size()))) {
      if (auto state = weight_state(file)) {
        scratch->files.emplace(location, std::move(*state));
        place(out, {location, 0, tensor.bytes().size()});
      }
    }
  }
  if (!is_external(out)) out.set_raw_data(data, tensor.bytes().size());  // no room there: in memory
  out.set_name(std::move(name));
  return out;
}

void Impl::bring_inside(onnx::TensorProto& tensor) const {
  if (!scratch || !is_external(tensor) || !scratch->files.contains(placement_of(tensor).location)) return;
  const auto bytes = read(tensor);
  if (!bytes) return;
  tensor.clear_external_data();
  tensor.clear_data_location();
  tensor.set_raw_data(bytes->bytes().data(), bytes->bytes().size());
}

Model Impl::wrapped(onnx::ModelProto proto) const {
  Model::Impl impl{std::move(proto), base.file(), base.folder(), base.impl().weights, base.impl().kept};
  if (scratch) {
    for (const auto& [location, file] : scratch->files) impl.weights.emplace(location, file);
    // The base's own temporary files and these.
    impl.kept = std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<Scratch>>>(impl.kept, scratch);
  }
  return Model::Impl::wrap(std::move(impl));
}

// --- changes

bool Graph::replace(ValueId old, ValueId with) {
  if (old == with || old == ValueId::none) return true;
  if (with == ValueId::none) return false;
  const bool free_to_rename = !is_input(with) && !impl_->value(with).constant && !is_output(with) &&
                              block(with) == block(old) && producer(with) != NodeId::none;
  const std::vector<Use> uses = std::exchange(impl_->value(old).uses, {});
  bool renamed = false;
  for (const Use& use : uses) {
    const bool stays = use.node == NodeId::none && !free_to_rename;
    if (use.node != NodeId::none) {
      impl_->node(use.node).inputs[use.slot] = with;
    } else if (!stays) {
      impl_->block(use.block).outputs[use.slot] = with;
      renamed = true;
    }
    impl_->add_use(stays ? old : with, use);
  }
  if (renamed) std::swap(impl_->value(old).name, impl_->value(with).name);
  return impl_->value(old).uses.empty();
}

void Graph::set_input(NodeId node, std::size_t slot, ValueId value) {
  auto& inputs = impl_->node(node).inputs;
  const Use use{node, BlockId::none, static_cast<std::uint32_t>(slot)};
  if (slot >= inputs.size()) resize_inputs(node, slot + 1);
  if (inputs[slot] != ValueId::none) impl_->drop_use(inputs[slot], use);
  inputs[slot] = value;
  if (value != ValueId::none) impl_->add_use(value, use);
}

void Graph::resize_inputs(NodeId node, std::size_t count) {
  for (std::size_t slot = count; slot < inputs(node).size(); ++slot) set_input(node, slot, ValueId::none);
  impl_->node(node).inputs.resize(count, ValueId::none);
  impl_->node(node).places.resize(count);
}

void Impl::erase_block(BlockId id) {
  for (std::uint32_t slot = 0; const ValueId output : block(id).outputs) drop_use(output, {NodeId::none, id, slot++});
  block(id).outputs.clear();
  for (NodeId n = block(id).first; n != NodeId::none; n = node(n).next) {
    for (std::uint32_t slot = 0; const ValueId input : node(n).inputs) {
      if (input != ValueId::none) drop_use(input, {n, BlockId::none, slot});
      ++slot;
    }
    for (const BlockId body : node(n).bodies) erase_block(body);
    node(n).alive = false;
  }
}

void Graph::erase(NodeId node) {
  if (!alive(node)) return;
  for (std::size_t slot = 0; slot < inputs(node).size(); ++slot) set_input(node, slot, ValueId::none);
  for (const BlockId body : bodies(node)) impl_->erase_block(body);
  for (const ValueId output : outputs(node))
    if (output != ValueId::none) impl_->value(output).alive = false;
  impl_->unlink(node);
  impl_->node(node).alive = false;
}

std::size_t Graph::sweep() {
  const auto unread = [&](NodeId node) {
    return alive(node) && std::all_of(outputs(node).begin(), outputs(node).end(),
                                      [&](ValueId v) { return v == ValueId::none || uses(v).empty(); });
  };
  std::vector<NodeId> waiting;
  for (const BlockId block : blocks())
    for (const NodeId node : nodes(block))
      if (unread(node)) waiting.push_back(node);
  std::size_t erased = 0;
  while (!waiting.empty()) {
    const NodeId node = waiting.back();
    waiting.pop_back();
    if (!unread(node)) continue;
    std::vector<NodeId> makers;
    for (const ValueId input : inputs(node)) makers.push_back(producer(input));
    for (const BlockId body : bodies(node))  // what an erased body captured may now be unread too
      for (const NodeId inner : nodes(body))
        for (const ValueId input : inputs(inner)) makers.push_back(producer(input));
    erase(node);
    ++erased;
    for (const NodeId maker : makers)
      if (maker != NodeId::none && unread(maker)) waiting.push_back(maker);
  }
  for (auto& block : impl_->blocks) {
    std::erase_if(block.initializers, [&](ValueId id) {
      auto& value = impl_->value(id);
      if (!value.uses.empty() || (value.input && ir_version() >= 4)) return false;
      value.alive = false;
      return true;
    });
    if (ir_version() >= 4) continue;
    for (std::size_t i = block.inputs.size(); i-- > 0;) {
      if (impl_->value(block.inputs[i]).alive) continue;
      block.inputs.erase(block.inputs.begin() + static_cast<std::ptrdiff_t>(i));
      block.input_infos.erase(block.input_infos.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return erased;
}

NodeId Graph::insert_before(NodeId place, NewNode made) {
  const auto id = static_cast<NodeId>(impl_->nodes.size());
  impl_->nodes.emplace_back();
  const BlockId home = block(place);
  auto& proto = impl_->editable(id);
  proto.set_op_type(made.op);
  if (!made.domain.empty()) proto.set_domain(made.domain);
  impl_->take_operator(id);
  if (made.like != NodeId::none) {
    impl_->node(id).remarks = impl_->node(made.like).remarks;
    if (made.name.empty()) made.name = impl_->node(made.like).proto->name();
  }
  const std::string base = made.name.empty() ? made.op : made.name;
  proto.set_name(base);
  impl_->link_before(id, home, place);
  for (std::size_t slot = 0; slot < made.inputs.size(); ++slot) set_input(id, slot, made.inputs[slot]);
  for (std::size_t i = 0; i < made.outputs; ++i) {
    const ValueId value = impl_->new_value(impl_->fresh_name(base + "_out"), home);
    impl_->value(value).producer = id;
    impl_->node(id).outputs.push_back(value);
  }
  return id;
}

ValueId Graph::add_constant(std::string_view hint, const Tensor& tensor) {
  const ValueId value = impl_->new_value(impl_->fresh_name(hint), BlockId::top);
  impl_->value(value).constant = std::make_shared<onnx::TensorProto>(impl_->stored(name(value), tensor));
  impl_->block(BlockId::top).initializers.push_back(value);
  return value;
}

namespace {

std::optional<onnx::TensorProto> value_of_constant(const onnx::NodeProto& node) {
  if (node.attribute_size() != 1) return std::nullopt;
  const auto& attribute = node.attribute(0);
  onnx::TensorProto out;
  if (attribute.name() == "value" && attribute.t().data_type() != onnx::TensorProto::STRING) return attribute.t();
  if (attribute.name() == "value_int" || attribute.name() == "value_ints") {
    out.set_data_type(onnx::TensorProto::INT64);
    if (attribute.name() == "value_int") out.add_int64_data(attribute.i());
    if (attribute.name() == "value_ints") out.add_dims(attribute.ints_size());
    for (const std::int64_t one : attribute.ints()) out.add_int64_data(one);
    return out;
  }
  if (attribute.name() == "value_float" || attribute.name() == "value_floats") {
    out.set_data_type(onnx::TensorProto::FLOAT);
    if (attribute.name() == "value_float") out.add_float_data(attribute.f());
    if (attribute.name() == "value_floats") out.add_dims(attribute.floats_size());
    for (const float one : attribute.floats()) out.add_float_data(one);
    return out;
  }
  return std::nullopt;
}

}  // namespace

std::optional<ValueId> Graph::take_constant(NodeId node) {
  const ValueId old = output(node, 0);
  auto tensor = value_of_constant(*impl_->node(node).proto);
  if (!tensor || old == ValueId::none || is_output(old)) return std::nullopt;
  // A name inside a body may be taken outside of it.
  const bool inside = block(node) != BlockId::top;
  const ValueId made = impl_->new_value(inside ? impl_->fresh_name(name(old) + "_constant") : name(old), BlockId::top);
  impl_->value(made).constant = std::make_shared<onnx::TensorProto>(std::move(*tensor));
  impl_->block(BlockId::top).initializers.push_back(made);
  replace(old, made);
  erase(node);
  return made;
}

bool Graph::inline_branch(NodeId node, bool then) {
  BlockId body = BlockId::none;
  auto bodies = impl_->node(node).bodies.begin();
  for (const auto& attribute : impl_->node(node).proto->attribute())
    if (attribute.type() == onnx::AttributeProto::GRAPH) {
      if (attribute.name() == (then ? "then_branch" : "else_branch")) body = *bodies;
      ++bodies;
    }
  if (body == BlockId::none || impl_->block(body).outputs.size() != outputs(node).size()) return false;
  const std::vector<ValueId> results = impl_->block(body).outputs;
  for (std::uint32_t slot = 0; slot < results.size(); ++slot)
    impl_->drop_use(results[slot], {NodeId::none, body, slot});
  impl_->block(body).outputs.clear();
  const BlockId home = block(node);
  const auto move_value = [&](ValueId value) {
    if (value == ValueId::none) return;
    impl_->value(value).block = home;
    impl_->value(value).name = &impl_->fresh_name(name(value));
  };
  for (const NodeId inner : nodes(body)) {
    impl_->unlink(inner);
    impl_->link_before(inner, home, node);
    for (const ValueId output : outputs(inner)) move_value(output);
  }
  for (const ValueId constant : std::exchange(impl_->block(body).initializers, {})) {
    move_value(constant);
    impl_->block(home).initializers.push_back(constant);
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (output(node, i) == ValueId::none || replace(output(node, i), results[i])) continue;
    const NodeId copy = insert_before(node, {"Identity", {results[i]}});
    replace(output(node, i), output(copy, 0));
  }
  erase(node);
  return true;
}

}  // namespace portwright
