// Constants: what is known without running the model.
#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "rewrite/pass.h"

namespace portwright {
namespace {

Tensor integers_tensor(const std::vector<std::int64_t>& values, Shape shape) {
  Tensor out = Tensor::uninitialised(Dtype::i64, std::move(shape));
  std::copy(values.begin(), values.end(), out.as_mutable<std::int64_t>().begin());
  return out;
}

// Operators whose output can be far larger than their inputs: computed only when its size is known.
bool grows(std::string_view op) {
  static constexpr std::string_view kGrowing[] = {"ConstantOfShape", "Expand",  "Tile",   "Range",
                                                  "OneHot",          "EyeLike", "Pad",    "Resize",
                                                  "Upsample",        "Einsum",  "MatMul", "Gemm"};
  return std::find(std::begin(kGrowing), std::end(kGrowing), op) != std::end(kGrowing);
}

// Q/DQ pairs are how a quantised model says what it is: folding them would take the quantisation out.
bool keeps_quantisation(std::string_view op) {
  return op == "QuantizeLinear" || op == "DequantizeLinear" || op == "DynamicQuantizeLinear";
}

class Folding {
 public:
  Folding(Graph& graph, Rewriting& rewriting) : graph_(graph), rewriting_(rewriting) {}

  Status run() {
    collect();
    if (nodes_.empty()) return {};
    find_results();
    drop_too_large();
    return compute(results_);
  }

 private:
  // All of them in one run. Where that fails, each half is tried by itself, so that a node that cannot be run leaves
  // only what depends on it in the graph.
  Status compute(std::span<const ValueId> results) {
    if (results.empty()) return {};
    auto outputs =
        rewriting_.options().evaluate(graph_.piece(needed_nodes(results), {}, {results.begin(), results.end()}));
    if (outputs) {
      for (const ValueId result : results) take(result, *outputs);
      return {};
    }
    if (outputs.error().fault == Fault::environment) return fail(std::move(outputs.error()));
    if (results.size() == 1) return {};
    PW_CHECK(compute(results.first(results.size() / 2)));
    return compute(results.subspan(results.size() / 2));
  }

  bool foldable(NodeId node) const {
    if (!is_pure(graph_, node) || keeps_quantisation(graph_.op(node)) || graph_.inputs(node).empty()) return false;
    for (const ValueId input : graph_.inputs(node))
      if (input != ValueId::none && !graph_.is_constant(input) && !computed_.contains(input)) return false;
    const auto outputs = graph_.outputs(node);
    return std::all_of(outputs.begin(), outputs.end(), [&](ValueId output) {
      if (output == ValueId::none) return true;
      const auto size = bytes(output);
      return size ? *size <= kMostComputed : !grows(graph_.op(node));
    });
  }

  std::optional<std::uint64_t> bytes(ValueId value) const {
    const auto dtype = graph_.dtype(value);
    const auto shape = graph_.fixed_shape(value);
    if (!dtype || !shape) return std::nullopt;
    const auto count = element_count(*shape);
    return count ? std::optional<std::uint64_t>(*count * size_of(*dtype)) : std::nullopt;
  }

  void collect() {
    for (const NodeId node : graph_.nodes()) {
      if (!foldable(node)) continue;
      nodes_.push_back(node);
      for (const ValueId output : graph_.outputs(node))
        if (output != ValueId::none) computed_.emplace(output, node);
    }
  }

  // Those that something outside reads. Outputs of the model stay computed: a constant cannot bear their names.
  void find_results() {
    const std::unordered_set<NodeId> inside(nodes_.begin(), nodes_.end());
    for (const NodeId node : nodes_)
      for (const ValueId output : graph_.outputs(node)) {
        if (output == ValueId::none || graph_.is_output(output) || !graph_.dtype(output)) continue;
        const auto uses = graph_.uses(output);
        if (std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return !inside.contains(use.node); }))
          results_.push_back(output);
      }
  }

  // Bytes of the constants that only this result needs: they leave the file when it comes in.
  std::uint64_t freed_by(ValueId result) const {
    std::uint64_t freed = 0;
    std::vector<NodeId> waiting{computed_.at(result)};
    std::unordered_set<NodeId> seen{waiting[0]};
    while (!waiting.empty() && seen.size() < 64) {
      const NodeId node = waiting.back();
      waiting.pop_back();
      for (const ValueId input : graph_.inputs(node)) {
        if (input == ValueId::none || graph_.uses(input).size() != 1) continue;
        freed += graph_.constant_bytes(input);
        if (const auto maker = computed_.find(input); maker != computed_.end() && seen.insert(maker->second).second)
          waiting.push_back(maker->second);
      }
    }
    return freed;
  }

  bool too_large(ValueId result) const {
    const auto size = bytes(result);
    return size && *size > freed_by(result) + rewriting_.options().fold_budget;
  }

  void drop_too_large() {
    std::erase_if(results_, [&](ValueId result) { return too_large(result); });
  }

  std::vector<NodeId> needed_nodes(std::span<const ValueId> results) const {
    std::unordered_set<NodeId> needed;
    std::vector<NodeId> waiting;
    const auto want = [&](ValueId value) {
      if (const auto maker = computed_.find(value); maker != computed_.end() && needed.insert(maker->second).second)
        waiting.push_back(maker->second);
    };
    for (const ValueId result : results) want(result);
    while (!waiting.empty()) {
      const NodeId node = waiting.back();
      waiting.pop_back();
      for (const ValueId input : graph_.inputs(node))
        if (input != ValueId::none) want(input);
    }
    std::vector<NodeId> ordered;
    for (const NodeId node : nodes_)
      if (needed.contains(node)) ordered.push_back(node);
    return ordered;
  }

  void take(ValueId result, const Tensors& outputs) {
    const Tensor* computed = find(outputs, graph_.name(result));
    if (computed == nullptr || computed->dtype() != graph_.dtype(result)) return;
    if (computed->bytes().size() > freed_by(result) + rewriting_.options().fold_budget) return;
    const NodeId node = computed_.at(result);
    rewriting_.did("{} '{}' folded to a constant of {}", graph_.op(node), graph_.name(node),
                   to_string(computed->shape()));
    graph_.replace(result, graph_.add_constant(graph_.name(result) + "_folded", *computed));
  }

  static constexpr std::uint64_t kMostComputed = std::uint64_t{1} << 30;
  Graph& graph_;
  Rewriting& rewriting_;
  std::vector<NodeId> nodes_;
  std::unordered_map<ValueId, NodeId> computed_;  // and which node makes it
  std::vector<ValueId> results_;
};

}  // namespace

Status constants_to_initializers(Graph& graph, Rewriting& rewriting) {
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block)) {
      if (!graph.is(node, "Constant")) continue;
      if (const auto value = graph.take_constant(node))
        rewriting.did("Constant '{}' made an initializer", graph.name(*value));
    }
  return {};
}

Status fold_shapes(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!is_pure(graph, node) || graph.is(node, "Constant")) continue;
    const ValueId output = graph.output(node, 0);
    if (graph.outputs(node).size() != 1 || output == ValueId::none || graph.is_output(output)) continue;
    const auto known = graph.known_integers(output);
    const auto shape = graph.fixed_shape(output);
    if (!known || !shape || element_count(*shape) != known->size()) continue;
    rewriting.did("{} '{}' is always [{}]", graph.op(node), graph.name(node), fmt::join(*known, ", "));
    bypass(graph, node, graph.add_constant(graph.name(output) + "_known", integers_tensor(*known, *shape)));
  }
  return {};
}

Status fix_reshapes(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.is(node, "Reshape") || graph.opset() < 5 || graph.is_constant(graph.input(node, 1))) continue;
    const auto target = reshape_target(graph, graph.input(node, 0), graph.output(node, 0));
    if (!target) continue;
    rewriting.did("the target of Reshape '{}' is [{}]", graph.name(node), fmt::join(*target, ", "));
    graph.set_input(node, 1, add_integers(graph, graph.name(graph.output(node, 0)) + "_shape", *target));
    graph.clear(node, "allowzero");
  }
  return {};
}

Status fold_constants(Graph& graph, Rewriting& rewriting) {
  if (!rewriting.options().evaluate) return {};
  return Folding(graph, rewriting).run();
}

Status inline_branches(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.is(node, "If") || graph.bodies(node).size() != 2) continue;
    const auto condition = graph.known_integers(graph.input(node, 0));
    if (!condition || condition->size() != 1) continue;
    const bool then = (*condition)[0] != 0;
    const auto name = graph.name(node);
    if (graph.inline_branch(node, then)) rewriting.did("If '{}' is always {}", name, then);
  }
  return {};
}

}  // namespace portwright
