#include "portwright/follow_sizes.h"

#include <algorithm>
#include <set>

#include "rewrite/pass.h"

namespace portwright {
namespace {

constexpr int kMostRounds = 16;  // one frozen number may hide another behind it

using Numbers = std::vector<std::int64_t>;

struct Frozen {
  std::string symbol;
  std::int64_t size = 0;
};

// The target with `kept`, which lets the operator keep what is there, where the input has the symbol itself. The first
// axis of the input meets number `ahead` of the target.
std::optional<Numbers> in_place(const std::vector<Dimension>& shape, std::size_t ahead, Numbers target,
                                const Frozen& frozen, std::int64_t kept) {
  for (std::size_t axis = 0; axis < shape.size() && ahead + axis < target.size(); ++axis)
    if (target[ahead + axis] == frozen.size && shape[axis].symbol == frozen.symbol) {
      target[ahead + axis] = kept;
      return target;
    }
  return std::nullopt;
}

// -1 for the one number that is the size or, where none is, the one that is a multiple of it (a batch that was
// flattened into another axis).
std::optional<Numbers> computed(Numbers target, const Frozen& frozen) {
  if (std::count(target.begin(), target.end(), -1) != 0) return std::nullopt;
  auto found = std::find(target.begin(), target.end(), frozen.size);
  const auto is_multiple = [&](std::int64_t number) { return number > 0 && number % frozen.size == 0; };
  if (found == target.end() && frozen.size > 1 && std::count_if(target.begin(), target.end(), is_multiple) == 1)
    found = std::find_if(target.begin(), target.end(), is_multiple);
  if (found == target.end()) return std::nullopt;
  *found = -1;
  return target;
}

// A number at the place of a symbol of its size is taken for frozen wherever it stands: beside a -1, which takes up
// every change, nothing tells that it is. Elsewhere only the nodes that are to `blame` are touched.
std::optional<Numbers> following(const Graph& graph, NodeId node, bool blame, const Numbers& target,
                                 const Frozen& frozen) {
  const auto shape = graph.shape(graph.input(node, 0));
  if (graph.is(node, "Expand")) {
    if (!shape || shape->size() > target.size()) return std::nullopt;
    return in_place(*shape, target.size() - shape->size(), target, frozen, 1);
  }
  if (!graph.is(node, "Reshape") || graph.opset() < 5 || graph.integer(node, "allowzero", 0) != 0) return std::nullopt;
  if (shape)
    if (auto followed = in_place(*shape, 0, target, frozen, 0)) return followed;
  return blame ? computed(target, frozen) : std::nullopt;
}

bool change(Graph& graph, NodeId node, bool blame, const std::map<std::string, std::int64_t>& example,
            std::vector<std::string>& changes) {
  const ValueId shape = graph.input(node, 1);
  const auto target = shape == ValueId::none ? std::nullopt : graph.known_integers(shape);
  if (!target) return false;
  for (const auto& [symbol, size] : example) {
    const auto better = following(graph, node, blame, *target, {symbol, size});
    if (!better) continue;
    changes.push_back(fmt::format("{} '{}' to [{}] instead of [{}]", graph.op(node), graph.name(node),
                                  fmt::join(*better, ", "), fmt::join(*target, ", ")));
    graph.set_input(node, 1, add_integers(graph, graph.name(graph.output(node, 0)) + "_shape", *better));
    return true;
  }
  return false;
}

}  // namespace

std::optional<Following> follow_sizes(const Model& model, const std::map<std::string, std::int64_t>& example) {
  const SimplifyOptions none;
  Rewriting unheard(none);
  Following out{model, {}};
  for (int round = 0; round < kMostRounds; ++round) {
    std::set<std::string> named;
    for (const Finding& finding : out.model.literal_sizes(example)) named.insert(finding.node);
    Graph graph(out.model);
    if (!constants_to_initializers(graph, unheard)) break;
    graph.infer();
    bool changed = false;
    for (const NodeId node : graph.nodes())
      changed = change(graph, node, named.contains(graph.name(node)), example, out.changes) || changed;
    if (!changed) break;
    graph.sweep();
    graph.declare_outputs();
    out.model = graph.model();
  }
  if (out.changes.empty()) return std::nullopt;
  return out;
}

}  // namespace portwright
