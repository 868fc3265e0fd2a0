#include "rewrite/pass.h"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>

namespace portwright {

const std::vector<Pass>& all_passes() {
  static const std::vector<Pass> passes{
      {"constants", "Constant nodes become initializers", constants_to_initializers},
      {"fold-shapes", "shape arithmetic whose result is known becomes a constant", fold_shapes},
      {"reshapes", "a computed Reshape target becomes a constant with 0 and -1", fix_reshapes},
      {"fold", "what depends on constants only is computed once, within the budget", fold_constants},
      {"branches", "an If whose condition is known becomes its branch", inline_branches},
      {"no-ops", "operators that change nothing go", remove_no_ops},
      {"chains", "Transpose, Reshape, Cast and Concat chains become one operator", merge_chains},
      {"duplicate-constants", "equal initializers become one", merge_duplicate_constants},
      {"duplicate-nodes", "equal operators on equal inputs become one", merge_duplicate_nodes},
      {"conv-batchnorm", "BatchNormalization moves into the weights of the convolution before it", fold_batchnorm},
      {"conv-factor", "a Mul or Div by a constant behind a convolution moves into its weights", fold_factor},
      {"conv-bias", "an Add behind a convolution becomes its bias", fold_bias},
      {"gemm", "MatMul and Add of matrices become Gemm", make_gemm},
      {"layer-norm", "a decomposed LayerNormalization becomes one (opset 17)", fuse_layer_norm},
      {"rms-norm", "a decomposed RMSNormalization becomes one (opset 23)", fuse_rms_norm},
      {"gelu", "a decomposed Gelu becomes one (opset 20)", fuse_gelu},
      {"attention", "softmax(q k' + mask) v becomes Attention (opset 23)", fuse_attention},
      {"unused", "what nothing reads goes", remove_unused},
  };
  return passes;
}

bool same_type(const Graph& graph, ValueId a, ValueId b) {
  if (!graph.dtype(a) || graph.dtype(a) != graph.dtype(b)) return false;
  const auto left = graph.shape(a), right = graph.shape(b);
  if (!left || !right) return false;
  return std::equal(left->begin(), left->end(), right->begin(), right->end(),
                    [](const Dimension& x, const Dimension& y) {
                      if (x.value || y.value) return x.value == y.value;
                      return !x.symbol.empty() && x.symbol == y.symbol;
                    });
}

ValueId add_integers(Graph& graph, const std::string& hint, const std::vector<std::int64_t>& values) {
  Tensor tensor = Tensor::uninitialised(Dtype::i64, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.as_mutable<std::int64_t>().begin());
  return graph.add_constant(hint, tensor);
}

namespace {

// The one dimension of `after` that is neither a number nor a symbol of `before` follows from the number of elements,
// when all symbols of `before` are in `after` too.
void solve_last_dimension(const std::vector<Dimension>& before, std::vector<Dimension>& after) {
  std::multiset<std::string> symbols;
  std::int64_t elements = 1, known = 1;
  for (const Dimension& dim : before) {
    if (dim.value) elements *= *dim.value;
    if (!dim.value && dim.symbol.empty()) return;
    if (!dim.value) symbols.insert(dim.symbol);
  }
  Dimension* open = nullptr;
  for (Dimension& dim : after) {
    if (dim.value) {
      known *= *dim.value;
    } else if (const auto found = symbols.find(dim.symbol); found != symbols.end()) {
      symbols.erase(found);
    } else if (open != nullptr) {
      return;
    } else {
      open = &dim;
    }
  }
  if (open != nullptr && symbols.empty() && known > 0 && elements > 0 && elements % known == 0)
    *open = {elements / known, ""};
}

}  // namespace

std::optional<std::vector<std::int64_t>> reshape_target(const Graph& graph, ValueId from, ValueId to) {
  const auto before = graph.shape(from);
  auto after = graph.shape(to);
  if (!after) return std::nullopt;
  if (before) solve_last_dimension(*before, *after);
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < after->size(); ++i) {
    const Dimension& dim = (*after)[i];
    if (dim.value && *dim.value <= 0) return std::nullopt;
    const bool copied =
        !dim.value && !dim.symbol.empty() && before && i < before->size() && (*before)[i].symbol == dim.symbol;
    out.push_back(dim.value.value_or(copied ? 0 : -1));
  }
  const auto open = std::count(out.begin(), out.end(), -1), kept = std::count(out.begin(), out.end(), 0);
  if (open == 0 && kept == 1)
    std::replace(out.begin(), out.end(), std::int64_t{0}, std::int64_t{-1});  // the plainer form
  return open > 1 ? std::nullopt : std::optional(out);
}

std::optional<std::vector<std::int64_t>> permutation(const Graph& graph, NodeId transpose) {
  auto order = graph.integers(transpose, "perm");
  if (!order) return std::nullopt;
  std::vector<bool> taken(order->size());
  for (const std::int64_t axis : *order) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(order->size()) || taken[static_cast<std::size_t>(axis)])
      return std::nullopt;
    taken[static_cast<std::size_t>(axis)] = true;
  }
  return order;
}

bool only_moves_ones(const Graph& graph, NodeId node) {
  if (!graph.is(node, "Transpose")) return false;
  const auto shape = graph.shape(graph.input(node, 0));
  const auto order = permutation(graph, node);
  if (!shape || !order || order->size() != shape->size()) return false;
  std::int64_t last = -1;
  for (const std::int64_t axis : *order) {
    if ((*shape)[static_cast<std::size_t>(axis)].value == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}

bool broadcasts_into(const Graph& graph, ValueId constant, ValueId value) {
  const auto small = graph.fixed_shape(constant);
  const auto large = graph.shape(value);
  if (!small || !large || small->size() > large->size()) return false;
  const std::size_t ahead = large->size() - small->size();
  for (std::size_t i = 0; i < small->size(); ++i)
    if ((*small)[i] != 1 && (*large)[ahead + i].value != (*small)[i]) return false;
  return true;
}

NodeId only_reader(const Graph& graph, ValueId value) {
  const auto uses = graph.uses(value);
  return uses.size() == 1 ? uses[0].node : NodeId::none;
}

bool bypass(Graph& graph, NodeId node, ValueId with) {
  const bool free = graph.replace(graph.output(node, 0), with);
  if (free) graph.erase(node);
  return free;
}

bool is_pure(const Graph& graph, NodeId node) {
  static constexpr std::string_view kImpure[] = {
      "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial", "Dropout"};
  return graph.domain(node).empty() && graph.bodies(node).empty() &&
         std::find(std::begin(kImpure), std::end(kImpure), graph.op(node)) == std::end(kImpure) &&
         !(graph.op(node) == "BatchNormalization" && graph.integer(node, "training_mode", 0) != 0);
}

Status remove_unused(Graph& graph, Rewriting& rewriting) {
  const std::size_t gone = graph.sweep();
  for (std::size_t i = 0; i < gone; ++i) rewriting.did("a node without readers removed");
  return {};
}

}  // namespace portwright
