#include "model/macs.h"

#include <onnx/common/constants.h>

#include <array>
#include <string_view>

#include "model/tensors.h"
#include "model/types.h"
#include "model/uses.h"

namespace portwright {
namespace {

using Shape64 = std::vector<std::int64_t>;
using Macs = std::optional<std::uint64_t>;

Macs product(const Shape64& shape, std::size_t from = 0) {
  Dims dims;
  for (std::size_t i = from; i < shape.size(); ++i) dims.Add(shape[i]);
  return count_of(dims);
}

Macs times(Macs a, Macs b) {
  std::uint64_t out = 0;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

Macs plus(Macs a, Macs b) {
  std::uint64_t out = 0;
  if (!a || !b || __builtin_add_overflow(*a, *b, &out)) return std::nullopt;
  return out;
}

// Shapes of one node's inputs and output, as far as known.
class Shapes {
 public:
  Shapes(const onnx::NodeProto& node, const Inferred& types) : node_(node), types_(types) {}
  std::optional<Shape64> input(int i) const {
    return i < node_.input_size() ? static_shape(types_.type(node_.input(i))) : std::nullopt;
  }
  std::optional<Shape64> output() const {
    return node_.output_size() > 0 ? static_shape(types_.type(node_.output(0))) : std::nullopt;
  }

 private:
  const onnx::NodeProto& node_;
  const Inferred& types_;
};

// Every output element takes one multiply-add for each weight of its output channel.
Macs conv(const Shapes& shapes, int weight) {
  const auto y = shapes.output(), w = shapes.input(weight);
  return y && w ? times(product(*y), product(*w, 1)) : std::nullopt;
}

// Every input element meets each weight of its input channel.
Macs conv_transpose(const Shapes& shapes) {
  const auto x = shapes.input(0), w = shapes.input(1);
  return x && w ? times(product(*x), product(*w, 1)) : std::nullopt;
}

Macs matmul(const Shapes& shapes) {
  const auto y = shapes.output(), a = shapes.input(0);
  if (!y || !a || a->empty()) return std::nullopt;
  return times(product(*y), static_cast<std::uint64_t>(a->back()));
}

Macs gemm(const onnx::NodeProto& node, const Shapes& shapes) {
  const auto y = shapes.output(), a = shapes.input(0);
  if (!y || !a || a->size() != 2) return std::nullopt;
  return times(product(*y), static_cast<std::uint64_t>((*a)[integer_attribute(node, "transA", 0) != 0 ? 0 : 1]));
}

// X is [sequence, batch, in]; W and R hold the weights of all gates and directions.
Macs recurrent(const Shapes& shapes) {
  const auto x = shapes.input(0), w = shapes.input(1), r = shapes.input(2);
  if (!x || !w || !r || x->size() != 3) return std::nullopt;
  return times(times(static_cast<std::uint64_t>((*x)[0]), static_cast<std::uint64_t>((*x)[1])),
               plus(product(*w), product(*r)));
}

// Scores and their weighted sum: each element of the query and of the output meets every key position.
Macs attention(const Shapes& shapes) {
  const auto q = shapes.input(0), k = shapes.input(1), y = shapes.output();
  if (!q || !k || !y || k->size() < 2) return std::nullopt;
  std::int64_t positions = (*k)[k->size() - 2];
  if (const auto past = shapes.input(4); past && past->size() == 4) positions += (*past)[2];
  return times(plus(product(*q), product(*y)), static_cast<std::uint64_t>(positions));
}

// The product of the sizes of all letters; nullopt with an ellipsis.
Macs einsum(const onnx::NodeProto& node, const Shapes& shapes) {
  std::string equation;
  for (const auto& attribute : node.attribute())
    if (attribute.name() == "equation") equation = attribute.s();
  std::array<std::int64_t, 128> sizes{};
  int input = 0;
  std::size_t axis = 0;
  for (const char c : equation.substr(0, equation.find('-'))) {
    if (c == ' ') continue;
    if (c == ',') {
      ++input;
      axis = 0;
      continue;
    }
    const auto shape = shapes.input(input);
    if (c == '.' || c < 0 || !shape || axis >= shape->size()) return std::nullopt;
    sizes[static_cast<unsigned char>(c)] = (*shape)[axis++];
  }
  Macs out = input > 0 ? 1 : 0;
  for (const std::int64_t size : sizes)
    if (size > 0) out = times(out, static_cast<std::uint64_t>(size));
  return out;
}

Macs macs_of(const onnx::NodeProto& node, const Inferred& types) {
  const Shapes shapes(node, types);
  const std::string& op = node.op_type();
  if (op == "Conv" || op == "ConvInteger" || op == "DeformConv") return conv(shapes, 1);
  if (op == "QLinearConv") return conv(shapes, 3);
  if (op == "ConvTranspose") return conv_transpose(shapes);
  if (op == "MatMul" || op == "MatMulInteger" || op == "QLinearMatMul") return matmul(shapes);
  if (op == "Gemm") return gemm(node, shapes);
  if (op == "LSTM" || op == "GRU" || op == "RNN") return recurrent(shapes);
  if (op == "Attention") return attention(shapes);
  if (op == "Einsum") return einsum(node, shapes);
  return 0;
}

// Whether a graph inside a node multiplies at all: how often it runs is not known.
bool subgraphs_multiply(const onnx::NodeProto& node) {
  bool found = false;
  for (const auto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    const Inferred nothing;
    for_each_graph(attribute.g(), [&](const onnx::GraphProto& graph) {
      for (const auto& inner : graph.node()) found |= macs_of(inner, nothing) != Macs(0);
    });
  }
  return found;
}

}  // namespace

std::optional<std::uint64_t> count_macs(const onnx::ModelProto& model, const Inferred& types) {
  Macs sum = 0;
  for (const auto& node : model.graph().node()) {
    if (!onnx::IsOnnxDomain(node.domain())) continue;
    sum = plus(sum, macs_of(node, types));
    if (!sum || subgraphs_multiply(node)) return std::nullopt;
  }
  return sum;
}

}  // namespace portwright
