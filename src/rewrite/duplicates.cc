// Things that are there twice.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "rewrite/pass.h"

namespace portwright {
namespace {

bool is_commutative(std::string_view op) {
  static constexpr std::string_view kOps[] = {"Add", "Mul", "And", "Or", "Xor", "Equal", "Max", "Min"};
  return std::find(std::begin(kOps), std::end(kOps), op) != std::end(kOps);
}

// What a node reads, in an order that does not depend on how it was written.
std::vector<ValueId> operands(const Graph& graph, NodeId node) {
  std::vector<ValueId> out(graph.inputs(node).begin(), graph.inputs(node).end());
  if (is_commutative(graph.op(node))) std::sort(out.begin(), out.end());
  return out;
}

// Equal for nodes that compute the same, seldom for others.
std::size_t hash_of(const Graph& graph, NodeId node) {
  std::size_t hash = graph.signature_hash(node);
  for (const ValueId input : operands(graph, node)) hash = hash * 31 + static_cast<std::size_t>(input);
  return hash;
}

bool compute_the_same(const Graph& graph, NodeId a, NodeId b) {
  return graph.op(a) == graph.op(b) && operands(graph, a) == operands(graph, b) &&
         graph.signature(a) == graph.signature(b);
}

// Lets everything read the outputs of `first`. False when an output could not be moved.
bool take_over(Graph& graph, NodeId first, NodeId node) {
  bool free = true;
  for (std::size_t i = 0; i < graph.outputs(node).size(); ++i) {
    const ValueId ours = graph.output(node, i), theirs = graph.output(first, i);
    if (ours == ValueId::none) continue;
    free = theirs != ValueId::none && graph.replace(ours, theirs) && free;
  }
  return free;
}

}  // namespace

Status merge_duplicate_constants(Graph& graph, Rewriting& rewriting) {
  std::unordered_map<std::string, std::vector<ValueId>> kinds;
  for (const ValueId value : graph.constants()) {
    const auto key = graph.sample(value);
    if (!key) {
      if (key.error().code == "unreadable_constant") continue;
      return fail(key.error());
    }
    auto& alike = kinds[*key];
    bool merged = false;
    for (const ValueId first : alike) {
      if (graph.block(first) != BlockId::top && graph.block(first) != graph.block(value))
        continue;  // not visible there
      PW_TRY(same, graph.same_constant(first, value));
      if (!same) continue;
      const bool read = !graph.uses(value).empty();
      merged = graph.replace(value, first);
      if (read && merged) rewriting.did("initializer '{}' is the same as '{}'", graph.name(value), graph.name(first));
      break;
    }
    if (!merged) alike.push_back(value);
  }
  return {};
}

Status merge_duplicate_nodes(Graph& graph, Rewriting& rewriting) {
  for (const BlockId block : graph.blocks()) {
    std::unordered_multimap<std::size_t, NodeId> seen;
    for (const NodeId node : graph.nodes(block)) {
      if (!is_pure(graph, node)) continue;
      const std::size_t hash = hash_of(graph, node);
      const auto [begin, end] = seen.equal_range(hash);
      const auto first =
          std::find_if(begin, end, [&](const auto& one) { return compute_the_same(graph, one.second, node); });
      if (first == end) {
        seen.emplace(hash, node);
      } else if (take_over(graph, first->second, node)) {
        rewriting.did("{} '{}' is the same as '{}'", graph.op(node), graph.name(node), graph.name(first->second));
        graph.erase(node);
      }
    }
  }
  return {};
}

}  // namespace portwright
