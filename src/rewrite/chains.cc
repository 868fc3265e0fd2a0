// Two operators in a row that one can do.
#include <algorithm>
#include <map>
#include <span>
#include <string_view>

#include "rewrite/pass.h"

namespace portwright {
namespace {

// The producer of the node's data input, when that operator is one of `ops` and only this node reads it.
NodeId before(const Graph& graph, NodeId node, std::span<const std::string_view> ops, bool alone) {
  const ValueId input = graph.input(node, 0);
  const NodeId maker = graph.producer(input);
  if (maker == NodeId::none || !graph.domain(maker).empty() || graph.block(maker) != graph.block(node))
    return NodeId::none;
  if (std::find(ops.begin(), ops.end(), graph.op(maker)) == ops.end()) return NodeId::none;
  return alone && graph.uses(input).size() != 1 ? NodeId::none : maker;
}

constexpr std::string_view kTranspose[] = {"Transpose"}, kCast[] = {"Cast"}, kSlice[] = {"Slice"},
                           kReshaping[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze"};

bool merge_transposes(Graph& graph, NodeId node) {
  const NodeId inner = before(graph, node, kTranspose, false);
  if (!graph.is(node, "Transpose") || inner == NodeId::none) return false;
  const auto first = permutation(graph, inner), second = permutation(graph, node);
  if (!first || !second || first->size() != second->size()) return false;
  std::vector<std::int64_t> both;
  for (const std::int64_t axis : *second) both.push_back(first->at(static_cast<std::size_t>(axis)));
  graph.set(node, "perm", both);
  graph.set_input(node, 0, graph.input(inner, 0));
  return true;
}

// Every value of the type `inside` is also one of the type `outside`.
bool holds(Dtype outside, Dtype inside) {
  const auto is = [&](Dtype in, std::initializer_list<Dtype> out) {
    return inside == in && std::find(out.begin(), out.end(), outside) != out.end();
  };
  return is(Dtype::f16, {Dtype::f32, Dtype::f64}) || is(Dtype::bf16, {Dtype::f32, Dtype::f64}) ||
         is(Dtype::f32, {Dtype::f64}) || is(Dtype::i32, {Dtype::i64, Dtype::f64}) ||
         is(Dtype::boolean, {Dtype::i32, Dtype::i64, Dtype::f32, Dtype::f64, Dtype::f16, Dtype::u8, Dtype::i8}) ||
         is(Dtype::u8, {Dtype::i32, Dtype::i64, Dtype::f32, Dtype::f64}) ||
         is(Dtype::i8, {Dtype::i32, Dtype::i64, Dtype::f32, Dtype::f64});
}

// A Cast behind a Cast that lost nothing.
bool merge_casts(Graph& graph, NodeId node) {
  const NodeId inner = before(graph, node, kCast, false);
  if (!graph.is(node, "Cast") || inner == NodeId::none) return false;
  const auto start = graph.dtype(graph.input(inner, 0)), middle = graph.dtype(graph.input(node, 0));
  if (!start || !middle || !holds(*middle, *start)) return false;
  graph.set_input(node, 0, graph.input(inner, 0));
  return true;
}

// Leaves the order of elements alone.
bool reshapes(const Graph& graph, NodeId node) {
  if (node == NodeId::none || !graph.domain(node).empty()) return false;
  return std::find(std::begin(kReshaping), std::end(kReshaping), graph.op(node)) != std::end(kReshaping) ||
         only_moves_ones(graph, node);
}

bool merge_reshapes(Graph& graph, NodeId node) {
  const NodeId inner = graph.producer(graph.input(node, 0));
  if (graph.opset() < 5 || !reshapes(graph, node) || !reshapes(graph, inner)) return false;
  if (graph.uses(graph.input(node, 0)).size() != 1 || graph.block(inner) != graph.block(node)) return false;
  const auto target = reshape_target(graph, graph.input(inner, 0), graph.output(node, 0));
  if (!target) return false;
  const ValueId wanted = add_integers(graph, graph.name(graph.output(node, 0)) + "_shape", *target);
  const NodeId made =
      graph.insert_before(node, {"Reshape", {graph.input(inner, 0), wanted}, 1, graph.name(node), {}, node});
  graph.replace(graph.output(node, 0), graph.output(made, 0));
  graph.erase(node);
  return true;
}

// What one Slice takes from each axis that it cuts.
struct Cut {
  std::int64_t start = 0, end = 0, step = 1;
};

std::optional<std::map<std::int64_t, Cut>> cuts_of(const Graph& graph, NodeId node) {
  if (!graph.is(node, "Slice") || graph.opset() < 10) return std::nullopt;
  const auto rank = graph.shape(graph.input(node, 0));
  const auto numbers = [&](std::size_t slot) { return graph.known_integers(graph.input(node, slot)); };
  const auto starts = numbers(1), ends = numbers(2);
  auto axes = numbers(3), steps = numbers(4);
  if (!rank || !starts || !ends || starts->size() != ends->size()) return std::nullopt;
  if ((axes && axes->size() != starts->size()) || (steps && steps->size() != starts->size())) return std::nullopt;
  if ((!axes && graph.input(node, 3) != ValueId::none) || (!steps && graph.input(node, 4) != ValueId::none))
    return std::nullopt;
  std::map<std::int64_t, Cut> out;
  for (std::size_t i = 0; i < starts->size(); ++i) {
    std::int64_t axis = axes ? axes->at(i) : static_cast<std::int64_t>(i);
    if (axis < 0) axis += static_cast<std::int64_t>(rank->size());
    if (!out.emplace(axis, Cut{(*starts)[i], (*ends)[i], steps ? steps->at(i) : 1}).second) return std::nullopt;
  }
  return out;
}

// Slices of different axes are one Slice.
bool merge_slices(Graph& graph, NodeId node) {
  const NodeId inner = before(graph, node, kSlice, false);
  if (inner == NodeId::none) return false;
  auto cuts = cuts_of(graph, node);
  const auto first = cuts_of(graph, inner);
  if (!cuts || !first) return false;
  for (const auto& [axis, cut] : *first)
    if (!cuts->emplace(axis, cut).second) return false;
  std::vector<std::int64_t> starts, ends, axes, steps;
  for (const auto& [axis, cut] : *cuts) {
    starts.push_back(cut.start);
    ends.push_back(cut.end);
    axes.push_back(axis);
    steps.push_back(cut.step);
  }
  const std::string name = graph.name(graph.output(node, 0));
  graph.set_input(node, 0, graph.input(inner, 0));
  graph.set_input(node, 1, add_integers(graph, name + "_starts", starts));
  graph.set_input(node, 2, add_integers(graph, name + "_ends", ends));
  graph.set_input(node, 3, add_integers(graph, name + "_axes", axes));
  graph.set_input(node, 4, add_integers(graph, name + "_steps", steps));
  return true;
}

// Concat of a Concat along the same axis takes the inner parts itself.
bool merge_concats(Graph& graph, NodeId node) {
  if (!graph.is(node, "Concat")) return false;
  const std::int64_t axis = graph.integer(node, "axis", 1);
  std::vector<ValueId> parts;
  bool merged = false;
  for (const ValueId input : graph.inputs(node)) {
    const NodeId inner = graph.producer(input);
    const bool fits = inner != NodeId::none && graph.is(inner, "Concat") && graph.integer(inner, "axis", 1) == axis &&
                      only_reader(graph, input) == node && graph.block(inner) == graph.block(node);
    merged = merged || fits;
    if (!fits) parts.push_back(input);
    if (fits) parts.insert(parts.end(), graph.inputs(inner).begin(), graph.inputs(inner).end());
  }
  if (!merged) return false;
  graph.resize_inputs(node, parts.size());
  for (std::size_t slot = 0; slot < parts.size(); ++slot) graph.set_input(node, slot, parts[slot]);
  return true;
}

}  // namespace

Status merge_chains(Graph& graph, Rewriting& rewriting) {
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block)) {
      const auto op = std::string(graph.op(node));
      const auto name = graph.name(node);
      const bool merged = merge_transposes(graph, node) || merge_casts(graph, node) || merge_concats(graph, node) ||
                          merge_slices(graph, node) || merge_reshapes(graph, node);
      if (merged) rewriting.did("{} '{}' merged with the one before it", op, name);
    }
  return {};
}

}  // namespace portwright
