// What moves into the weights of convolutions and matrix products.
#include <algorithm>
#include <cmath>

#include "rewrite/pass.h"

namespace portwright {
namespace {

// A convolution whose weights are known, and which of their axes counts output channels.
struct Convolution {
  NodeId node = NodeId::none;
  std::int64_t channels = 0;
  bool transposed = false;
};

std::optional<Convolution> convolution_before(const Graph& graph, ValueId value) {
  const NodeId node = graph.producer(value);
  if (node == NodeId::none || graph.uses(value).size() != 1) return std::nullopt;
  const bool transposed = graph.is(node, "ConvTranspose");
  if (!transposed && !graph.is(node, "Conv")) return std::nullopt;
  if (transposed && graph.integer(node, "group", 1) != 1) return std::nullopt;
  const ValueId weights = graph.input(node, 1), bias = graph.input(node, 2);
  const auto shape = graph.fixed_shape(weights);
  if (!graph.is_constant(weights) || graph.dtype(weights) != Dtype::f32 || !shape || shape->size() < 3)
    return std::nullopt;
  if (bias != ValueId::none && !graph.is_constant(bias)) return std::nullopt;
  return Convolution{node, (*shape)[transposed ? 1 : 0], transposed};
}

Result<std::vector<double>> numbers(const Graph& graph, ValueId value) {
  PW_TRY(tensor, graph.constant(value));
  const Tensor wide = converted(tensor, Dtype::f64);
  return std::vector<double>(wide.as<double>().begin(), wide.as<double>().end());
}

Tensor floats(const std::vector<double>& values) {
  Tensor out = Tensor::uninitialised(Dtype::f32, {static_cast<std::int64_t>(values.size())});
  std::transform(values.begin(), values.end(), out.as_mutable<float>().begin(),
                 [](double v) { return static_cast<float>(v); });
  return out;
}

Result<std::vector<double>> bias_of(const Graph& graph, const Convolution& conv) {
  const ValueId bias = graph.input(conv.node, 2);
  if (bias == ValueId::none) return std::vector<double>(static_cast<std::size_t>(conv.channels));
  return numbers(graph, bias);
}

void set_bias(Graph& graph, const Convolution& conv, const std::vector<double>& bias) {
  graph.set_input(conv.node, 2, graph.add_constant(graph.name(graph.output(conv.node, 0)) + "_bias", floats(bias)));
}

// Multiplies the weights of each output channel by a factor; false, and nothing is changed, where that overflows.
Result<bool> scale_weights(Graph& graph, const Convolution& conv, const std::vector<double>& factors) {
  const ValueId old = graph.input(conv.node, 1);
  PW_TRY(weights, graph.constant(old));
  const auto channels = factors.size();
  const std::size_t outer = conv.transposed ? static_cast<std::size_t>(weights.shape()[0]) : 1;
  const std::size_t inner = weights.count() / std::max<std::size_t>(1, outer * channels);
  auto* at = weights.as_mutable<float>().data();
  for (std::size_t o = 0; o < outer; ++o)
    for (std::size_t c = 0; c < channels; ++c)
      for (std::size_t i = 0; i < inner; ++i, ++at) *at = static_cast<float>(static_cast<double>(*at) * factors[c]);
  const auto scaled = weights.as<float>();
  if (!std::all_of(scaled.begin(), scaled.end(), [](float weight) { return std::isfinite(weight); })) return false;
  graph.set_input(conv.node, 1, graph.add_constant(graph.name(old) + "_scaled", weights));
  return true;
}

bool infers(const Graph& graph, NodeId norm) {
  if (graph.integer(norm, "training_mode", 0) != 0 || graph.integer(norm, "spatial", 1) != 1) return false;
  if (graph.opset() < 7 && graph.integer(norm, "is_test", 0) != 1) return false;
  for (std::size_t i = 1; i < graph.outputs(norm).size(); ++i)
    if (graph.output(norm, i) != ValueId::none && !graph.uses(graph.output(norm, i)).empty()) return false;
  return true;
}

// y = scale * (conv - mean) / sqrt(variance + epsilon) + shift, per channel: a factor for the weights, and a bias.
Result<bool> absorb_norm(Graph& graph, NodeId norm) {
  const auto conv = convolution_before(graph, graph.input(norm, 0));
  if (!conv || !infers(graph, norm)) return false;
  std::vector<double> of[4];
  for (std::size_t i = 0; i < 4; ++i) {
    if (!graph.is_constant(graph.input(norm, i + 1)) || !is_float(*graph.dtype(graph.input(norm, i + 1)))) return false;
    PW_TRY(read, numbers(graph, graph.input(norm, i + 1)));
    if (static_cast<std::int64_t>(read.size()) != conv->channels) return false;
    of[i] = std::move(read);
  }
  const auto& [scale, shift, mean, variance] = of;
  const double epsilon = static_cast<double>(graph.real(norm, "epsilon", 1e-5F));
  PW_TRY(bias, bias_of(graph, *conv));
  if (bias.size() != scale.size()) return false;
  std::vector<double> factors(scale.size());
  for (std::size_t c = 0; c < scale.size(); ++c) {
    factors[c] = scale[c] / std::sqrt(variance[c] + epsilon);
    bias[c] = (bias[c] - mean[c]) * factors[c] + shift[c];
    if (!std::isfinite(factors[c]) || !std::isfinite(static_cast<float>(bias[c]))) return false;
  }
  PW_TRY(scaled, scale_weights(graph, *conv, factors));
  if (!scaled) return false;
  set_bias(graph, *conv, bias);
  return bypass(graph, norm, graph.input(norm, 0));
}

// The constant that is added, one number a channel; nullopt when it varies along another axis.
Result<std::optional<std::vector<double>>> per_channel(const Graph& graph, ValueId constant, ValueId value,
                                                       std::int64_t channels) {
  using Answer = std::optional<std::vector<double>>;
  const auto shape = graph.fixed_shape(constant);
  const auto whole = graph.shape(value);
  if (!graph.is_constant(constant) || !shape || !whole || whole->size() < 3 || shape->size() > whole->size())
    return Answer();
  if (graph.dtype(constant) != Dtype::f32) return Answer();
  for (std::size_t i = 0; i < shape->size(); ++i) {
    const bool channel_axis = i + whole->size() - shape->size() == 1;
    if ((*shape)[i] != 1 && !(channel_axis && (*shape)[i] == channels)) return Answer();
  }
  PW_TRY(read, numbers(graph, constant));
  if (read.size() == 1) read.assign(static_cast<std::size_t>(channels), read[0]);
  return Answer(std::move(read));
}

// A convolution, the bias it has, and one number a channel that the node behind it adds, multiplies or divides by.
struct Operands {
  Convolution conv;
  ValueId value = ValueId::none;  // of the convolution
  std::vector<double> bias, numbers;
};

// The convolution may be any of the first `slots` inputs; nullopt when there is none beside such a constant.
Result<std::optional<Operands>> operands_of(const Graph& graph, NodeId node, std::size_t slots) {
  using Answer = std::optional<Operands>;
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const ValueId value = graph.input(node, slot), constant = graph.input(node, 1 - slot);
    if (constant == ValueId::none || value == ValueId::none) return Answer();
    const auto conv = convolution_before(graph, value);
    if (!conv) continue;
    PW_TRY(numbers, per_channel(graph, constant, value, conv->channels));
    if (!numbers) continue;
    PW_TRY(bias, bias_of(graph, *conv));
    if (bias.size() == numbers->size()) return Answer({*conv, value, std::move(bias), std::move(*numbers)});
  }
  return Answer();
}

Result<bool> absorb_add(Graph& graph, NodeId add) {
  PW_TRY(found, operands_of(graph, add, 2));
  if (!found) return false;
  auto& bias = found->bias;
  std::transform(bias.begin(), bias.end(), found->numbers.begin(), bias.begin(), std::plus<>());
  set_bias(graph, found->conv, bias);
  return bypass(graph, add, found->value);
}

// y = conv * factor, per channel: into the weights, and into the bias where there is one.
Result<bool> absorb_factor(Graph& graph, NodeId node) {
  const bool divides = graph.is(node, "Div");
  PW_TRY(found, operands_of(graph, node, divides ? 1 : 2));
  if (!found) return false;
  auto& [conv, value, bias, factors] = *found;
  for (std::size_t c = 0; c < bias.size(); ++c) {
    if (divides) factors[c] = 1 / factors[c];
    bias[c] *= factors[c];
    if (!std::isfinite(factors[c]) || !std::isfinite(static_cast<float>(bias[c]))) return false;
  }
  PW_TRY(scaled, scale_weights(graph, conv, factors));
  if (!scaled) return false;
  if (graph.input(conv.node, 2) != ValueId::none) set_bias(graph, conv, bias);
  return bypass(graph, node, value);
}

bool is_matrix(const Graph& graph, ValueId value) {
  const auto shape = graph.shape(value);
  return shape && shape->size() == 2;
}

// Gemm takes what broadcasts into its result: a row, a column or a scalar.
bool make_one_gemm(Graph& graph, NodeId add) {
  for (const std::size_t slot : {0U, 1U}) {
    const ValueId product = graph.input(add, slot), added = graph.input(add, 1 - slot);
    const NodeId multiply = graph.producer(product);
    if (multiply == NodeId::none || added == ValueId::none || !graph.is(multiply, "MatMul")) continue;
    if (graph.uses(product).size() != 1 || graph.block(multiply) != graph.block(add)) continue;
    const auto dtype = graph.dtype(product);
    if (dtype != Dtype::f32 && dtype != Dtype::f64 && dtype != Dtype::f16) continue;
    if (!is_matrix(graph, graph.input(multiply, 0)) || !is_matrix(graph, graph.input(multiply, 1))) continue;
    if (!broadcasts_into(graph, added, product)) continue;
    const NodeId made = graph.insert_before(
        add,
        {"Gemm", {graph.input(multiply, 0), graph.input(multiply, 1), added}, 1, graph.name(multiply), {}, multiply});
    graph.replace(graph.output(add, 0), graph.output(made, 0));
    graph.erase(add);
    return true;
  }
  return false;
}

// A transposed operand is a flag of Gemm.
bool absorb_transposes(Graph& graph, NodeId gemm) {
  bool changed = false;
  for (const std::size_t slot : {0U, 1U}) {
    const NodeId transpose = graph.producer(graph.input(gemm, slot));
    if (transpose == NodeId::none || !graph.is(transpose, "Transpose") ||
        graph.uses(graph.input(gemm, slot)).size() != 1)
      continue;
    const auto order = graph.integers(transpose, "perm");
    if (order && *order != std::vector<std::int64_t>{1, 0}) continue;
    const char* flag = slot == 0 ? "transA" : "transB";
    graph.set(gemm, flag, std::int64_t{1} - graph.integer(gemm, flag, 0));
    graph.set_input(gemm, slot, graph.input(transpose, 0));
    changed = true;
  }
  return changed;
}

}  // namespace

Status fold_batchnorm(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.is(node, "BatchNormalization")) continue;
    const auto name = graph.name(node);
    PW_TRY(done, absorb_norm(graph, node));
    if (done) rewriting.did("BatchNormalization '{}' moved into the convolution before it", name);
  }
  return {};
}

Status fold_bias(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.is(node, "Add")) continue;
    const auto name = graph.name(node);
    PW_TRY(done, absorb_add(graph, node));
    if (done) rewriting.did("Add '{}' became the bias of the convolution before it", name);
  }
  return {};
}

Status fold_factor(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    if (!graph.is(node, "Mul") && !graph.is(node, "Div")) continue;
    const auto name = graph.name(node);
    const auto op = std::string(graph.op(node));
    PW_TRY(done, absorb_factor(graph, node));
    if (done) rewriting.did("{} '{}' moved into the weights of the convolution before it", op, name);
  }
  return {};
}

Status make_gemm(Graph& graph, Rewriting& rewriting) {
  for (const NodeId node : graph.nodes()) {
    const auto name = graph.name(node);
    if (graph.is(node, "Add") && graph.opset() >= 11 && make_one_gemm(graph, node))
      rewriting.did("MatMul and Add '{}' became a Gemm", name);
    else if (graph.is(node, "Gemm") && absorb_transposes(graph, node))
      rewriting.did("a Transpose in front of Gemm '{}' became its flag", name);
  }
  return {};
}

}  // namespace portwright
