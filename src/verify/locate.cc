// Which node: runs with every tensor marked as an output.
#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "portwright/validate.h"

namespace portwright {
namespace {

constexpr float kLargestHalf = 65504.0F;

// Tensors in graph order: the outputs of each node as it comes.
std::vector<std::pair<NodeOrigin, std::string>> in_graph_order(const Model& model, const Tensors& tensors) {
  std::unordered_map<std::string, std::size_t> place;
  for (const NodeOrigin& origin : model.nodes()) place.emplace(origin.node, place.size());
  std::vector<std::pair<NodeOrigin, std::string>> ordered;
  for (const auto& [name, tensor] : tensors)
    if (auto origin = model.producer_of(name)) ordered.emplace_back(*origin, name);
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return place.at(a.first.node) < place.at(b.first.node); });
  return ordered;
}

float largest(const Tensor& tensor) {
  const Tensor floats = converted(tensor, Dtype::f32);
  float most = 0;
  for (const float value : floats.as<float>())
    if (std::isfinite(value)) most = std::max(most, std::fabs(value));
  return most;
}

}  // namespace

Result<Tensors> all_tensors(const Model& model, const CompileOptions& options, const Tensors& inputs,
                            const Isolation& isolation) {
  CompileOptions unsaved = options;
  unsaved.save_to.clear();
  PW_TRY(session, open_session(model.with_all_outputs(), unsaved, isolation));
  PW_TRY(answer, session->run(inputs));
  return std::move(answer.outputs);  // views that keep the worker's memory alive; nothing runs after them
}

Result<Tensors> unoptimised_tensors(const Model& model, const Tensors& inputs, const Isolation& isolation) {
  return all_tensors(model, {{"onnxruntime", "fp32", "", "cpu", "onnxruntime:fp32"}, 0, "off", {}, {}}, inputs,
                     isolation);
}

std::optional<Culprit> first_difference(const Model& model, const Tensors& actual, const Tensors& truth,
                                        const Policy& policy, bool strict) {
  for (const auto& [origin, name] : in_graph_order(model, actual)) {
    const Tensor& ours = *find(actual, name);
    const Tensor* wanted = find(truth, name);
    if (wanted == nullptr) continue;
    if (!strict && (wanted->dtype() != ours.dtype() || wanted->shape() != ours.shape())) continue;
    OutputMetrics metrics = compare_output(name, ours, *wanted, policy);
    if (metrics.verdict != Verdict::passed) return Culprit{origin, name, std::move(metrics)};
  }
  return std::nullopt;
}

Result<std::optional<Culprit>> first_overflow(const Model& model, const Tensors& inputs, const Isolation& isolation) {
  PW_TRY(tensors, unoptimised_tensors(model, inputs, isolation));
  for (const auto& [origin, name] : in_graph_order(model, tensors)) {
    const Tensor& tensor = *find(tensors, name);
    if (!is_float(tensor.dtype())) continue;
    const float most = largest(tensor);
    if (most <= kLargestHalf) continue;
    Culprit culprit{origin, name, {}};
    culprit.metrics.name = name;
    culprit.metrics.max_abs = most;
    return std::optional<Culprit>(std::move(culprit));
  }
  return std::optional<Culprit>();
}

}  // namespace portwright
