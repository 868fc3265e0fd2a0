#include "portwright/extract.h"

#include <algorithm>
#include <unordered_set>

#include "base/glob.h"

namespace portwright {
namespace {

Error extract_error(std::string code, std::string message, const std::string& where, std::string hint) {
  return {Fault::usage, "extract", std::move(code), std::move(message), where, std::move(hint), ""};
}

// Values of the top-level graph that match one of the patterns, in graph order.
Result<std::vector<ValueId>> matching(const Graph& graph, const std::vector<std::string>& patterns) {
  std::vector<ValueId> values(graph.inputs().begin(), graph.inputs().end());
  for (const NodeId node : graph.nodes())
    for (const ValueId output : graph.outputs(node))
      if (output != ValueId::none) values.push_back(output);
  std::vector<ValueId> out;
  for (const std::string& pattern : patterns) {
    const std::size_t before = out.size();
    for (const ValueId value : values)
      if (glob_match(pattern, graph.name(value))) out.push_back(value);
    if (out.size() == before)
      return fail(extract_error("no_such_tensor", "the model has no tensor '" + pattern + "'", pattern,
                                "portwright inspect MODEL --nodes '*' lists them; constants are no tensors to cut at"));
  }
  return out;
}

// Everything that a set of values needs, down to `stops` and inputs of the model.
struct Cone {
  std::vector<NodeId> nodes;    // in graph order
  std::vector<ValueId> inputs;  // stops and model inputs that are needed, in the order of first need
};

Cone cone_of(const Graph& graph, const std::vector<ValueId>& ends, const std::vector<ValueId>& starts) {
  const std::unordered_set<ValueId> stops(starts.begin(), starts.end());
  std::unordered_set<NodeId> taken;
  std::unordered_set<ValueId> seen;
  std::vector<ValueId> waiting(ends.rbegin(), ends.rend());
  Cone cone;
  const std::function<void(NodeId)> need = [&](NodeId node) {
    for (const ValueId input : graph.inputs(node)) waiting.push_back(input);
    for (const BlockId body : graph.bodies(node)) {
      for (const NodeId inner : graph.nodes(body)) need(inner);
      for (const ValueId output : graph.outputs(body)) waiting.push_back(output);
    }
  };
  while (!waiting.empty()) {
    const ValueId value = waiting.back();
    waiting.pop_back();
    if (value == ValueId::none || graph.block(value) != BlockId::top || !seen.insert(value).second) continue;
    const NodeId producer = graph.producer(value);
    if (stops.contains(value) || (producer == NodeId::none && graph.is_input(value) && !graph.is_constant(value))) {
      cone.inputs.push_back(value);
    } else if (producer != NodeId::none && taken.insert(producer).second) {
      need(producer);
    }
  }
  for (const NodeId node : graph.nodes())
    if (taken.contains(node)) cone.nodes.push_back(node);
  return cone;
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> out;
  for (const ValueId value : values) out.push_back(graph.name(value));
  return out;
}

}  // namespace

Result<Piece> extract(const Model& model, const std::vector<std::string>& from, const std::vector<std::string>& to) {
  Graph graph(model);
  graph.infer();
  PW_TRY(starts, matching(graph, from));
  PW_TRY(named, matching(graph, to));
  const std::vector<ValueId> ends =
      to.empty() ? std::vector<ValueId>(graph.outputs().begin(), graph.outputs().end()) : named;
  const Cone cone = cone_of(graph, ends, starts);
  if (cone.nodes.empty())
    return fail(extract_error("nothing_between", "there is no node between these tensors", "",
                              "give --to a tensor that is computed from --from"));
  Piece piece{graph.piece(cone.nodes, cone.inputs, ends),
              names_of(graph, cone.inputs),
              names_of(graph, ends),
              cone.nodes.size(),
              {}};
  std::vector<ValueId> computed;
  std::copy_if(cone.inputs.begin(), cone.inputs.end(), std::back_inserter(computed),
               [&](ValueId value) { return graph.producer(value) != NodeId::none; });
  if (computed.empty()) return piece;
  const Cone before = cone_of(graph, computed, {});
  piece.before = graph.piece(before.nodes, before.inputs, computed);
  return piece;
}

}  // namespace portwright
