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
    std::unordered_map<std::string, NodeId> seen;
    for (const NodeId node : graph.nodes(block)) {
      if (!is_pure(graph, node)) continue;
      std::string key = graph.signature(node);
      std::vector<ValueId> inputs(graph.inputs(node).begin(), graph.inputs(node).end());
      if (is_commutative(graph.op(node))) std::sort(inputs.begin(), inputs.end());
      for (const ValueId input : inputs) key += ',' + std::to_string(static_cast<std::uint32_t>(input));
      const auto [first, fresh] = seen.emplace(std::move(key), node);
      if (fresh) continue;
      bool free = true;
      for (std::size_t i = 0; i < graph.outputs(node).size(); ++i) {
        const ValueId ours = graph.output(node, i), theirs = graph.output(first->second, i);
        if (ours == ValueId::none) continue;
        free = theirs != ValueId::none && graph.replace(ours, theirs) && free;
      }
      if (!free) continue;
      rewriting.did("{} '{}' is the same as '{}'", graph.op(node), graph.name(node), graph.name(first->second));
      graph.erase(node);
    }
  }
  return {};
}

}  // namespace portwright
