// Operators that give back what they got.
#include <algorithm>
#include <limits>

#include "rewrite/pass.h"

namespace portwright {
namespace {

bool all(const std::optional<std::vector<std::int64_t>>& values, std::int64_t wanted) {
  return values && std::all_of(values->begin(), values->end(), [&](std::int64_t v) { return v == wanted; });
}

bool is_all(const Graph& graph, ValueId value, std::int64_t wanted) {
  if (const auto real = graph.splat(value)) return *real == static_cast<double>(wanted);
  return all(graph.known_integers(value), wanted) && graph.is_constant(value);
}

// x with a neutral constant: x + 0, x * 1, x - 0, x / 1, x ^ 1.
ValueId beside_neutral(const Graph& graph, NodeId node) {
  const auto op = graph.op(node);
  const bool additive = op == "Add" || op == "Sub", multiplicative = op == "Mul" || op == "Div" || op == "Pow";
  if (!additive && !multiplicative) return ValueId::none;
  const std::int64_t neutral = additive ? 0 : 1;
  const auto keeps = [&](ValueId value, ValueId constant) {
    return value != ValueId::none && is_all(graph, constant, neutral) && broadcasts_into(graph, constant, value);
  };
  const ValueId left = graph.input(node, 0), right = graph.input(node, 1);
  if (keeps(left, right)) return left;
  if ((op == "Add" || op == "Mul") && keeps(right, left)) return right;
  return ValueId::none;
}

// The numbers of an input, or of the attribute that older opsets have in its place.
std::optional<std::vector<std::int64_t>> numbers(const Graph& graph, NodeId node, std::size_t slot,
                                                 std::string_view attribute) {
  if (graph.has(node, attribute)) return graph.integers(node, attribute);
  return graph.known_integers(graph.input(node, slot));
}

bool slices_everything(const Graph& graph, NodeId node) {
  const auto starts = numbers(graph, node, 1, "starts"), ends = numbers(graph, node, 2, "ends");
  const auto shape = graph.shape(graph.input(node, 0));
  if (!all(starts, 0) || !ends || !shape || ends->size() > shape->size()) return false;
  if (graph.input(node, 4) != ValueId::none && !all(graph.known_integers(graph.input(node, 4)), 1)) return false;
  auto axes = numbers(graph, node, 3, "axes");
  if (axes ? axes->size() != ends->size() : graph.input(node, 3) != ValueId::none) return false;
  for (std::size_t i = 0; i < ends->size(); ++i) {
    std::int64_t axis = axes ? axes->at(i) : static_cast<std::int64_t>(i);
    if (axis < 0) axis += static_cast<std::int64_t>(shape->size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(shape->size())) return false;
    const auto& size = (*shape)[static_cast<std::size_t>(axis)].value;
    if ((*ends)[i] < std::numeric_limits<std::int32_t>::max() && (!size || (*ends)[i] < *size)) return false;
  }
  return true;
}

bool pads_nothing(const Graph& graph, NodeId node) {
  if (graph.has(node, "paddings")) return all(graph.integers(node, "paddings"), 0);
  const auto pads = numbers(graph, node, 1, "pads");
  return pads && !pads->empty() && all(pads, 0);
}

bool drops_nothing(const Graph& graph, NodeId node) {
  const ValueId mask = graph.output(node, 1), training = graph.input(node, 2);
  if (mask != ValueId::none && (!graph.uses(mask).empty() || graph.is_output(mask))) return false;
  if (graph.opset() < 7) return graph.integer(node, "is_test", 0) == 1;
  return training == ValueId::none || (graph.is_constant(training) && all(graph.known_integers(training), 0));
}

bool keeps_order(const Graph& graph, NodeId node) {
  const auto order = graph.integers(node, "perm");
  if (!order) return graph.shape(graph.input(node, 0)) && graph.shape(graph.input(node, 0))->size() < 2;
  for (std::size_t i = 0; i < order->size(); ++i)
    if ((*order)[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

// Reshaping operators keep the order of elements, so equal shapes mean equal values.
bool is_reshaping(std::string_view op) {
  return op == "Reshape" || op == "Flatten" || op == "Squeeze" || op == "Unsqueeze" || op == "Expand" || op == "Tile";
}

// What the node's output equals; none when it does something.
ValueId unchanged(const Graph& graph, NodeId node) {
  const auto op = graph.op(node);
  const ValueId input = graph.input(node, 0);
  if (input == ValueId::none) return ValueId::none;
  const auto inputs = graph.inputs(node).size();
  bool same = op == "Identity";
  if (op == "Cast" || op == "CastLike")
    same = graph.dtype(input) && graph.dtype(input) == graph.dtype(graph.output(node, 0));
  if (op == "Dropout") same = drops_nothing(graph, node);
  if (op == "Pad") same = pads_nothing(graph, node);
  if (op == "Slice") same = slices_everything(graph, node);
  if (op == "Transpose") same = keeps_order(graph, node);
  if (!same && (is_reshaping(op) || only_moves_ones(graph, node)))
    same = same_type(graph, input, graph.output(node, 0));
  if (op == "Concat" || op == "Sum" || op == "Mean" || op == "Max" || op == "Min") same = inputs == 1;
  if (op == "Split") same = graph.outputs(node).size() == 1;
  return same ? input : beside_neutral(graph, node);
}

}  // namespace

Status remove_no_ops(Graph& graph, Rewriting& rewriting) {
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block)) {
      if (!graph.domain(node).empty() || graph.output(node, 0) == ValueId::none) continue;
      const ValueId same = unchanged(graph, node);
      if (same == ValueId::none) continue;
      const auto op = std::string(graph.op(node));
      const auto name = graph.name(node);
      const auto readers = graph.uses(graph.output(node, 0)).size();
      const bool gone = bypass(graph, node, same);
      if (gone || graph.uses(graph.output(node, 0)).size() < readers)
        rewriting.did("{} '{}' changes nothing", op, name);
    }
  return {};
}

}  // namespace portwright
