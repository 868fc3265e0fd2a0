// Which node: runs with every tensor marked as an output.
#include <algorithm>
#include <cmath>

#include "portwright/validate.h"

namespace portwright {
namespace {

constexpr float kLargestHalf = 65504.0F;

CompileOptions unoptimised() { return {{"onnxruntime", "fp32", "", "cpu", "onnxruntime:fp32"}, 0, "off", {}, {}}; }

Result<Tensors> all_tensors(const Model& marked, const CompileOptions& options, const Tensors& inputs,
                            const Isolation& isolation) {
  PW_TRY(session, open_session(marked, options, isolation));
  PW_TRY(answer, session->run(inputs));
  return std::move(answer.outputs);  // views that keep the worker's memory alive; nothing runs after them
}

// Tensors in graph order: the outputs of each node as it comes.
std::vector<std::pair<NodeOrigin, std::string>> in_graph_order(const Model& model, const Tensors& tensors) {
  std::vector<std::pair<NodeOrigin, std::string>> ordered;
  for (const auto& [name, tensor] : tensors)
    if (auto origin = model.producer_of(name)) ordered.emplace_back(*origin, name);
  const auto nodes = model.nodes();
  const auto place = [&](const NodeOrigin& origin) {
    return std::find_if(nodes.begin(), nodes.end(), [&](const NodeOrigin& n) { return n.node == origin.node; }) -
           nodes.begin();
  };
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return place(a.first) < place(b.first); });
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

Result<std::optional<Culprit>> first_difference(const Model& model, const CompileOptions& target, const Tensors& inputs,
                                                const Policy& policy, const Isolation& isolation) {
  const Model marked = model.with_all_outputs();
  PW_TRY(reference, all_tensors(marked, unoptimised(), inputs, isolation));
  CompileOptions options = target;
  options.save_to.clear();
  PW_TRY(actual, all_tensors(marked, options, inputs, isolation));
  for (const auto& [origin, name] : in_graph_order(marked, reference)) {
    const Tensor* theirs = find(actual, name);
    if (theirs == nullptr) continue;
    OutputMetrics metrics = compare_output(name, *theirs, *find(reference, name), policy);
    if (metrics.verdict != Verdict::passed) return std::optional<Culprit>(Culprit{origin, name, std::move(metrics)});
  }
  return std::optional<Culprit>();
}

Result<std::optional<Culprit>> first_overflow(const Model& model, const Tensors& inputs, const Isolation& isolation) {
  const Model marked = model.with_all_outputs();
  PW_TRY(tensors, all_tensors(marked, unoptimised(), inputs, isolation));
  for (const auto& [origin, name] : in_graph_order(marked, tensors)) {
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
