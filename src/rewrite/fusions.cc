// Decompositions that the standard has an operator for: LayerNormalization, RMSNormalization, Gelu, Attention.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "rewrite/pass.h"

namespace portwright {
namespace {

// The node behind a value when it is that operator of the same block.
NodeId made_by(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId maker = value == ValueId::none ? NodeId::none : graph.producer(value);
  return graph.is(maker, op) ? maker : NodeId::none;
}

NodeId read_by(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId reader = only_reader(graph, value);
  return graph.is(reader, op) ? reader : NodeId::none;
}

bool is_near(const Graph& graph, ValueId value, double wanted) {
  const auto number = value == ValueId::none ? std::nullopt : graph.splat(value);
  return number && std::abs(*number - wanted) <= 1e-4 * std::abs(wanted);
}

// The other operand of a node with two.
ValueId beside(const Graph& graph, NodeId node, ValueId operand) {
  return graph.input(node, 0) == operand ? graph.input(node, 1) : graph.input(node, 0);
}

// What the node multiplies or divides by a constant, and the factor that comes of it.
struct Scaled {
  ValueId value = ValueId::none;
  double factor = 1;
};
Scaled scaled(const Graph& graph, ValueId value) {
  if (const NodeId node = made_by(graph, value, "Mul"); node != NodeId::none)
    for (const std::size_t slot : {0U, 1U})
      if (const auto factor = graph.splat(graph.input(node, slot)))
        if (broadcasts_into(graph, graph.input(node, slot), graph.input(node, 1 - slot)))
          return {graph.input(node, 1 - slot), *factor};
  if (const NodeId node = made_by(graph, value, "Div"); node != NodeId::none)
    if (const auto divisor = graph.splat(graph.input(node, 1));
        divisor && *divisor != 0 && broadcasts_into(graph, graph.input(node, 1), graph.input(node, 0)))
      return {graph.input(node, 0), 1 / *divisor};
  return {value, 1};
}

// Through products with constants, all of them.
Scaled unscaled(const Graph& graph, ValueId value) {
  Scaled out{value, 1};
  for (;;) {
    const Scaled next = scaled(graph, out.value);
    if (next.value == out.value) return out;
    out = {next.value, out.factor * next.factor};
  }
}

bool is_f32(const Graph& graph, ValueId value) { return graph.dtype(value) == Dtype::f32; }

// Puts the operator in the place of `last`, which gave the result.
NodeId put(Graph& graph, NodeId last, Graph::NewNode node,
           const std::vector<std::pair<const char*, float>>& reals = {}) {
  node.like = last;
  const NodeId made = graph.insert_before(last, std::move(node));
  for (const auto& [name, value] : reals) graph.set(made, name, value);
  graph.replace(graph.output(last, 0), graph.output(made, 0));
  graph.erase(last);
  return made;
}

// --- normalisation over the last axis

bool reduces_last(const Graph& graph, NodeId node) {
  if (node == NodeId::none || graph.integer(node, "keepdims", 1) != 1) return false;
  const auto rank = graph.shape(graph.input(node, 0));
  auto axes = graph.integers(node, "axes");
  if (!axes && graph.input(node, 1) != ValueId::none) axes = graph.known_integers(graph.input(node, 1));
  if (!rank || !axes || axes->size() != 1) return false;
  return (*axes)[0] == -1 || (*axes)[0] == static_cast<std::int64_t>(rank->size()) - 1;
}

// x of x * x or x ^ 2.
ValueId squared(const Graph& graph, ValueId value) {
  if (const NodeId power = made_by(graph, value, "Pow"); power != NodeId::none)
    return is_near(graph, graph.input(power, 1), 2) ? graph.input(power, 0) : ValueId::none;
  if (const NodeId product = made_by(graph, value, "Mul"); product != NodeId::none)
    return graph.input(product, 0) == graph.input(product, 1) ? graph.input(product, 0) : ValueId::none;
  return ValueId::none;
}

// sqrt(mean(x ^ 2) + epsilon) over the last axis.
struct RootMeanSquare {
  ValueId of = ValueId::none;
  float epsilon = 0;
};
std::optional<RootMeanSquare> root_mean_square(const Graph& graph, ValueId value) {
  const NodeId root = made_by(graph, value, "Sqrt");
  const NodeId sum = root == NodeId::none ? NodeId::none : made_by(graph, graph.input(root, 0), "Add");
  if (sum == NodeId::none) return std::nullopt;
  for (const std::size_t slot : {0U, 1U}) {
    const auto epsilon = graph.splat(graph.input(sum, slot));
    const NodeId mean = made_by(graph, graph.input(sum, 1 - slot), "ReduceMean");
    if (!epsilon || !reduces_last(graph, mean)) continue;
    const ValueId of = squared(graph, graph.input(mean, 0));
    if (of != ValueId::none) return RootMeanSquare{of, static_cast<float>(*epsilon)};
  }
  return std::nullopt;
}

// x / rms(x), in one of the forms that exporters write: x / r, x * (1 / r), x * Reciprocal(r).
std::optional<RootMeanSquare> normalised(const Graph& graph, NodeId node) {
  if (graph.is(node, "Div")) {
    const auto rms = root_mean_square(graph, graph.input(node, 1));
    return rms && rms->of == graph.input(node, 0) ? rms : std::nullopt;
  }
  if (!graph.is(node, "Mul")) return std::nullopt;
  for (const std::size_t slot : {0U, 1U}) {
    ValueId root = ValueId::none;
    if (const NodeId one = made_by(graph, graph.input(node, slot), "Reciprocal"); one != NodeId::none)
      root = graph.input(one, 0);
    if (const NodeId one = made_by(graph, graph.input(node, slot), "Div");
        one != NodeId::none && is_near(graph, graph.input(one, 0), 1))
      root = graph.input(one, 1);
    const auto rms = root == ValueId::none ? std::nullopt : root_mean_square(graph, root);
    if (rms && rms->of == graph.input(node, 1 - slot)) return rms;
  }
  return std::nullopt;
}

// The vector beside `value` in its only reader, when it is a constant as long as the last axis.
struct Weight {
  NodeId node = NodeId::none;
  ValueId value = ValueId::none;
};
Weight weight_after(const Graph& graph, ValueId value, std::string_view op) {
  const NodeId reader = read_by(graph, value, op);
  const auto shape = graph.shape(value);
  if (reader == NodeId::none || !shape || shape->empty() || !shape->back().value) return {};
  const ValueId weight = beside(graph, reader, value);
  const auto size = graph.fixed_shape(weight);
  const bool fits = graph.is_constant(weight) && size && *size == Shape{*shape->back().value} && is_f32(graph, weight);
  return fits ? Weight{reader, weight} : Weight{};
}

bool make_layer_norm(Graph& graph, NodeId node) {
  const auto rms = normalised(graph, node);
  const NodeId centre = rms ? made_by(graph, rms->of, "Sub") : NodeId::none;
  if (centre == NodeId::none || !is_f32(graph, rms->of)) return false;
  const ValueId x = graph.input(centre, 0);
  const NodeId mean = made_by(graph, graph.input(centre, 1), "ReduceMean");
  if (!reduces_last(graph, mean) || graph.input(mean, 0) != x) return false;
  const Weight scale = weight_after(graph, graph.output(node, 0), "Mul");
  if (scale.node == NodeId::none) return false;
  const Weight shift = weight_after(graph, graph.output(scale.node, 0), "Add");
  std::vector<ValueId> inputs{x, scale.value};
  if (shift.node != NodeId::none) inputs.push_back(shift.value);
  put(graph, shift.node == NodeId::none ? scale.node : shift.node, {"LayerNormalization", inputs},
      {{"epsilon", rms->epsilon}});
  return true;
}

bool make_rms_norm(Graph& graph, NodeId node) {
  const auto rms = normalised(graph, node);
  if (!rms || !is_f32(graph, rms->of)) return false;
  const Weight scale = weight_after(graph, graph.output(node, 0), "Mul");
  if (scale.node == NodeId::none) return false;
  put(graph, scale.node, {"RMSNormalization", {rms->of, scale.value}}, {{"epsilon", rms->epsilon}});
  return true;
}

// --- Gelu: x / 2 * (1 + erf(x / sqrt 2)), or with tanh(sqrt(2 / pi) * (x + 0.044715 x ^ 3)) for the erf

// `sum` times x times 1/2, in whatever order.
NodeId half_product(const Graph& graph, ValueId sum, ValueId x) {
  const NodeId first = read_by(graph, sum, "Mul");
  if (first == NodeId::none) return NodeId::none;
  const ValueId other = beside(graph, first, sum);
  const Scaled half = scaled(graph, other);
  if (half.value == x && std::abs(half.factor - 0.5) < 1e-6) return first;
  const NodeId second = read_by(graph, graph.output(first, 0), "Mul");
  if (second == NodeId::none) return NodeId::none;
  const ValueId last = beside(graph, second, graph.output(first, 0));
  const bool done = (other == x && is_near(graph, last, 0.5)) || (last == x && is_near(graph, other, 0.5));
  return done ? second : NodeId::none;
}

// x of x ^ 3.
ValueId cubed(const Graph& graph, ValueId value) {
  if (const NodeId power = made_by(graph, value, "Pow"); power != NodeId::none)
    return is_near(graph, graph.input(power, 1), 3) ? graph.input(power, 0) : ValueId::none;
  const NodeId product = made_by(graph, value, "Mul");
  if (product == NodeId::none) return ValueId::none;
  for (const std::size_t slot : {0U, 1U})
    if (const ValueId x = squared(graph, graph.input(product, slot)); x == graph.input(product, 1 - slot)) return x;
  return ValueId::none;
}

// x of the argument of erf, or of that of tanh; none when it is another.
ValueId gelu_argument(const Graph& graph, NodeId step) {
  const Scaled inside = scaled(graph, graph.input(step, 0));
  if (graph.is(step, "Erf"))
    return std::abs(inside.factor - std::numbers::sqrt2 / 2) < 1e-4 ? inside.value : ValueId::none;
  const NodeId sum = made_by(graph, inside.value, "Add");
  if (sum == NodeId::none || std::abs(inside.factor - std::sqrt(2 / std::numbers::pi)) > 1e-4) return ValueId::none;
  for (const std::size_t slot : {0U, 1U}) {
    const ValueId x = graph.input(sum, 1 - slot);
    const Scaled cube = scaled(graph, graph.input(sum, slot));
    if (std::abs(cube.factor - 0.044715) < 1e-6 && cubed(graph, cube.value) == x) return x;
  }
  return ValueId::none;
}

bool make_gelu(Graph& graph, NodeId step) {
  const ValueId x = gelu_argument(graph, step);
  const NodeId sum = x == ValueId::none ? NodeId::none : read_by(graph, graph.output(step, 0), "Add");
  if (sum == NodeId::none || !is_near(graph, beside(graph, sum, graph.output(step, 0)), 1)) return false;
  const NodeId last = half_product(graph, graph.output(sum, 0), x);
  if (last == NodeId::none) return false;
  const bool approximate = graph.is(step, "Tanh");
  const NodeId made = put(graph, last, {"Gelu", {x}});
  if (approximate) graph.set(made, "approximate", "tanh");
  return true;
}

// --- Attention: softmax(q k' * scale + mask) v

struct Heads {
  ValueId value = ValueId::none;
  double scale = 1;
  std::vector<std::int64_t> order;  // of the Transpose that makes k'; empty for q
};

bool is_heads(const Graph& graph, ValueId value) {
  const auto shape = graph.shape(value);
  return value != ValueId::none && is_f32(graph, value) && shape && shape->size() == 4;
}

// k of k': the Transpose in front of the product, taken apart into that of heads and that of the product.
std::optional<Heads> keys_of(const Graph& graph, ValueId value) {
  const Scaled outer = unscaled(graph, value);
  const NodeId transpose = made_by(graph, outer.value, "Transpose");
  if (transpose == NodeId::none) return std::nullopt;
  auto order = permutation(graph, transpose);
  if (!order || order->size() != 4) return std::nullopt;
  std::swap((*order)[2], (*order)[3]);
  const Scaled inner = unscaled(graph, graph.input(transpose, 0));
  return Heads{inner.value, outer.factor * inner.factor, *order};
}

// The sizes of batch and heads must be the same numbers or symbols: Attention does not broadcast as MatMul does.
bool same_heads(const Graph& graph, ValueId a, ValueId b) {
  const auto left = graph.shape(a), right = graph.shape(b);
  if (!left || !right || left->size() != 4 || right->size() != 4) return false;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const Dimension &x = (*left)[axis], &y = (*right)[axis];
    const bool same = x.value ? x.value == y.value : !x.symbol.empty() && x.symbol == y.symbol;
    if (!same) return false;
  }
  return true;
}

bool make_attention(Graph& graph, NodeId softmax) {
  const NodeId last = read_by(graph, graph.output(softmax, 0), "MatMul");
  const std::int64_t axis = graph.integer(softmax, "axis", -1);
  if (last == NodeId::none || graph.input(last, 0) != graph.output(softmax, 0) || (axis != -1 && axis != 3))
    return false;
  ValueId scores = graph.input(softmax, 0), mask = ValueId::none;
  if (graph.uses(scores).size() != 1) return false;
  if (const NodeId sum = made_by(graph, scores, "Add"); sum != NodeId::none) {
    const bool first = made_by(graph, unscaled(graph, graph.input(sum, 0)).value, "MatMul") != NodeId::none;
    mask = graph.input(sum, first ? 1 : 0);
    scores = graph.input(sum, first ? 0 : 1);
    if (!is_heads(graph, mask) || graph.uses(scores).size() != 1) return false;
  }
  const Scaled product = unscaled(graph, scores);
  const NodeId multiply = made_by(graph, product.value, "MatMul");
  if (multiply == NodeId::none || graph.uses(product.value).size() != 1) return false;
  const Scaled q = unscaled(graph, graph.input(multiply, 0));
  const auto k = keys_of(graph, graph.input(multiply, 1));
  const ValueId v = graph.input(last, 1);
  if (!k || !is_heads(graph, q.value) || !is_heads(graph, k->value) || !is_heads(graph, v)) return false;
  if (!same_heads(graph, q.value, graph.input(multiply, 1)) || !same_heads(graph, q.value, v)) return false;
  ValueId keys = k->value;
  if (k->order != std::vector<std::int64_t>{0, 1, 2, 3}) {
    const NodeId transpose =
        graph.insert_before(multiply, {"Transpose", {k->value}, 1, graph.name(multiply) + "_keys"});
    graph.set(transpose, "perm", k->order);
    keys = graph.output(transpose, 0);
  }
  std::vector<ValueId> inputs{q.value, keys, v};
  if (mask != ValueId::none) inputs.push_back(mask);
  put(graph, last, {"Attention", inputs}, {{"scale", static_cast<float>(product.factor * q.factor * k->scale)}});
  return true;
}

struct Fusion {
  const char* op;
  std::int64_t opset;  // from which the standard has it
  bool (*step)(Graph& graph, NodeId node);
  std::string_view start, other_start;  // operators at which it is looked for
};

constexpr Fusion kLayerNorm{"LayerNormalization", 17, make_layer_norm, "Div", "Mul"};
constexpr Fusion kRmsNorm{"RMSNormalization", 23, make_rms_norm, "Div", "Mul"};
constexpr Fusion kGelu{"Gelu", 20, make_gelu, "Erf", "Tanh"};
constexpr Fusion kAttention{"Attention", 23, make_attention, "Softmax", ""};

std::vector<std::string> fused(Graph& graph, const Fusion& fusion) {
  std::vector<std::string> names;
  for (const BlockId block : graph.blocks())
    for (const NodeId node : graph.nodes(block)) {
      if (!graph.alive(node) || !graph.domain(node).empty()) continue;
      if (graph.op(node) != fusion.start && graph.op(node) != fusion.other_start) continue;
      auto name = graph.name(node);
      if (fusion.step(graph, node)) names.push_back(std::move(name));
    }
  return names;
}

Status fuse(Graph& graph, Rewriting& rewriting, const Fusion& fusion) {
  if (graph.opset() < fusion.opset) return {};
  for (const std::string& name : fused(graph, fusion))
    rewriting.did("the operators around '{}' became {}", name, fusion.op);
  return {};
}

}  // namespace

Status fuse_layer_norm(Graph& graph, Rewriting& rewriting) { return fuse(graph, rewriting, kLayerNorm); }
Status fuse_rms_norm(Graph& graph, Rewriting& rewriting) { return fuse(graph, rewriting, kRmsNorm); }
Status fuse_gelu(Graph& graph, Rewriting& rewriting) { return fuse(graph, rewriting, kGelu); }
Status fuse_attention(Graph& graph, Rewriting& rewriting) { return fuse(graph, rewriting, kAttention); }

std::vector<Decomposed> decompositions(const Model& model) {
  const SimplifyOptions options;
  Rewriting unheard(options);
  Graph graph(model);  // thrown away: what the opset does not have may be written into it
  std::vector<Decomposed> out;
  if (!constants_to_initializers(graph, unheard)) return out;
  graph.infer();
  for (const Fusion* fusion : {&kLayerNorm, &kRmsNorm, &kGelu, &kAttention})
    if (const auto found = fused(graph, *fusion); !found.empty()) out.push_back({fusion->op, found.size()});
  return out;
}

}  // namespace portwright
