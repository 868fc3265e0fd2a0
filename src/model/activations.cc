#include "model/activations.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "model/tensors.h"
#include "model/types.h"

namespace portwright {
namespace {

std::optional<std::uint64_t> bytes_of(const onnx::TypeProto* type) {
  const auto shape = static_shape(type);
  if (!shape) return std::nullopt;
  Dims dims;
  for (const std::int64_t dim : *shape) dims.Add(dim);
  return raw_bytes(type->tensor_type().elem_type(), dims);
}

// The place of the last node that reads each value, inner graphs included; outputs are read at the end.
std::unordered_map<std::string, int> last_readers(const onnx::GraphProto& graph) {
  std::unordered_map<std::string, int> out;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& input : graph.node(i).input()) out[input] = i;
    for (const auto& attribute : graph.node(i).attribute())
      if (attribute.has_g())
        for_each_graph(attribute.g(), [&](const onnx::GraphProto& inner) {
          for (const auto& node : inner.node())
            for (const auto& input : node.input()) out[input] = i;
          for (const auto& output : inner.output()) out[output.name()] = i;
        });
  }
  for (const auto& output : graph.output()) out[output.name()] = graph.node_size();
  return out;
}

}  // namespace

std::optional<std::uint64_t> peak_activation_bytes(const onnx::ModelProto& model, const Inferred& types) {
  const auto& graph = model.graph();
  const auto last = last_readers(graph);
  std::unordered_map<std::string, std::uint64_t> alive;
  std::uint64_t now = 0, peak = 0;
  const auto born = [&](const std::string& value) {
    const auto bytes = bytes_of(types.type(value));
    if (!bytes) return false;
    alive[value] = *bytes;
    peak = std::max(peak, now += *bytes);
    return true;
  };
  const auto dies = [&](const std::string& value, int at) {
    const auto found = alive.find(value);
    const auto reader = last.find(value);
    if (found == alive.end() || (reader != last.end() && reader->second > at)) return;
    now -= found->second;
    alive.erase(found);
  };
  for (const auto& input : graph.input())
    if (last.contains(input.name()) && !born(input.name())) return std::nullopt;
  for (int i = 0; i < graph.node_size(); ++i) {
    for (const auto& output : graph.node(i).output())
      if (!output.empty() && !born(output)) return std::nullopt;
    for (const auto& input : graph.node(i).input()) dies(input, i);
    for (const auto& output : graph.node(i).output()) dies(output, i);
  }
  return peak;
}

}  // namespace portwright
