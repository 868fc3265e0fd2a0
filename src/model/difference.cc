#include "portwright/difference.h"

#include <algorithm>
#include <map>

#include "portwright/tensor.h"

namespace portwright {
namespace {

using Kind = Difference::Kind;

template <class Value>
using ByName = std::map<std::string, Value>;

// What is only here, only there, and what `compare` says of what is in both.
template <class Value, class Describe, class Compare>
void match(const ByName<Value>& before, const ByName<Value>& after, const char* what, std::vector<Difference>& out,
           Describe describe, Compare compare) {
  for (const auto& [name, value] : before) {
    const auto other = after.find(name);
    if (other == after.end())
      out.push_back({Kind::removed, what, name, describe(value)});
    else if (std::string detail = compare(value, other->second); !detail.empty())
      out.push_back({Kind::changed, what, name, std::move(detail)});
  }
  for (const auto& [name, value] : after)
    if (!before.contains(name)) out.push_back({Kind::added, what, name, describe(value)});
}

std::string from_to(const std::string& before, const std::string& after) {
  return before == after ? std::string() : before + " to " + after;
}

ByName<std::string> types_of(const std::vector<ValueInfo>& values) {
  ByName<std::string> out;
  for (const ValueInfo& value : values) out[value.name] = value.type_text;
  return out;
}

struct Node {
  const Graph* graph;
  NodeId id;
};

std::string op_of(const Node& node) {
  const auto domain = node.graph->domain(node.id);
  return (domain.empty() ? "" : std::string(domain) + "::") + std::string(node.graph->op(node.id));
}

std::string inputs_of(const Node& node) {
  std::string out;
  for (const ValueId input : node.graph->inputs(node.id))
    out += (out.empty() ? "" : ", ") + (input == ValueId::none ? "" : node.graph->name(input));
  return "(" + out + ")";
}

std::string changed_node(const Node& before, const Node& after) {
  if (op_of(before) != op_of(after)) return op_of(before) + " to " + op_of(after);
  std::string out;
  const bool bodies = !before.graph->bodies(before.id).empty();
  if (!bodies && before.graph->signature(before.id) != after.graph->signature(after.id)) out = "other attributes";
  if (const auto inputs = from_to(inputs_of(before), inputs_of(after)); !inputs.empty())
    out += (out.empty() ? "" : "; ") + std::string("inputs ") + inputs;
  return out;
}

ByName<Node> nodes_of(const Graph& graph) {
  ByName<Node> out;
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block)) {
      const ValueId first = graph.output(node, 0);
      out.emplace(first == ValueId::none ? graph.name(node) : graph.name(first), Node{&graph, node});
    }
  return out;
}

struct Constant {
  const Graph* graph;
  ValueId id;
};

std::string type_of(const Constant& constant) {
  const auto dtype = constant.graph->dtype(constant.id);
  const auto shape = constant.graph->fixed_shape(constant.id);
  return (dtype ? std::string(to_string(*dtype)) : "?") + (shape ? to_string(*shape) : "");
}

std::string changed_constant(const Constant& before, const Constant& after) {
  if (auto types = from_to(type_of(before), type_of(after)); !types.empty()) return types;
  const auto mine = before.graph->sample(before.id), other = after.graph->sample(after.id);
  if (mine && other && *mine != *other) return "other values";
  const auto left = before.graph->constant(before.id), right = after.graph->constant(after.id);
  const bool same = left && right && std::ranges::equal(left->bytes(), right->bytes());
  return same ? "" : "other values";
}

ByName<Constant> constants_of(const Graph& graph) {
  ByName<Constant> out;
  for (const ValueId value : graph.constants()) out.emplace(graph.name(value), Constant{&graph, value});
  return out;
}

ByName<std::string> opsets_of(const Graph& graph, const Model& model) {
  ByName<std::string> out{{"ai.onnx", std::to_string(graph.opset())}, {"IR", std::to_string(model.ir_version())}};
  for (const auto& [name, node] : nodes_of(graph))
    if (const std::string domain(graph.domain(node.id)); !domain.empty())
      out[domain] = std::to_string(graph.opset(domain));
  return out;
}

}  // namespace

std::vector<Difference> differences(const Model& before, const Model& after) {
  const Graph a(before), b(after);
  const auto itself = [](const std::string& text) { return text; };
  std::vector<Difference> out;
  match(opsets_of(a, before), opsets_of(b, after), "version", out, itself, from_to);
  match(types_of(before.inputs()), types_of(after.inputs()), "input", out, itself, from_to);
  match(types_of(before.outputs()), types_of(after.outputs()), "output", out, itself, from_to);
  match(nodes_of(a), nodes_of(b), "node", out, op_of, changed_node);
  match(constants_of(a), constants_of(b), "constant", out, type_of, changed_constant);
  return out;
}

}  // namespace portwright
