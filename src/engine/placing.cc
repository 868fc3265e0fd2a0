#include "engine/placing.h"

#include <algorithm>
#include <fstream>

namespace portwright {

Result<RunResult> PlacingSession::run(const Tensors& inputs) {
  return run_into(inputs, [](const std::string&, Dtype dtype, const Shape& shape) -> Result<Tensor> {
    return Tensor::uninitialised(dtype, shape);
  });
}

Result<std::vector<double>> PlacingSession::time(const Tensors& inputs, int runs) {
  std::vector<double> seconds;
  std::map<std::string, Tensor> kept;  // one set of outputs, written again and again
  const Placer place = [&](const std::string& name, Dtype dtype, const Shape& shape) -> Result<Tensor> {
    Tensor& tensor = kept[name];
    if (tensor.dtype() != dtype || tensor.shape() != shape) tensor = Tensor::uninitialised(dtype, shape);
    return tensor;
  };
  for (int i = 0; i < runs; ++i) {
    PW_TRY(result, run_into(inputs, place));
    seconds.push_back(result.seconds);
  }
  return seconds;
}

std::size_t PlacingSession::peak_memory() const {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::strtoull(line.c_str() + 6, nullptr, 10) * 1024;
  return 0;
}

namespace {

Error bad_input(const std::string& name, const std::string& what, const std::string& hint) {
  return {Fault::usage, "run", "bad_input", "input '" + name + "': " + what, name, hint, ""};
}

Status check_input(const ValueInfo& expected, const Tensor& given) {
  if (expected.dtype && *expected.dtype != given.dtype())
    return fail(bad_input(expected.name,
                          "expected " + expected.type_text + ", received " + std::string(to_string(given.dtype())) +
                              to_string(given.shape()),
                          "convert the array to that dtype"));
  if (!expected.has_shape) return {};
  bool fits = expected.shape.size() == given.shape().size();
  for (std::size_t i = 0; fits && i < expected.shape.size(); ++i)
    fits = !expected.shape[i].value || *expected.shape[i].value == given.shape()[i];
  if (fits) return {};
  return fail(bad_input(expected.name,
                        "expected " + expected.type_text + ", received " + std::string(to_string(given.dtype())) +
                            to_string(given.shape()),
                        "an axis shown as a number is fixed in the model; export it as a dynamic axis to vary it"));
}

std::vector<Shape> shapes_of(const std::vector<const Tensor*>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor* tensor : tensors) shapes.push_back(tensor->shape());
  return shapes;
}

}  // namespace

Result<std::vector<const Tensor*>> ordered_inputs(const std::vector<ValueInfo>& expected, const Tensors& given,
                                                  const std::vector<std::string>& dropped) {
  std::vector<const Tensor*> ordered;
  for (const ValueInfo& info : expected) {
    const Tensor* tensor = find(given, info.name);
    if (tensor == nullptr) return fail(bad_input(info.name, "missing", "the model needs it; see portwright inspect"));
    PW_CHECK(check_input(info, *tensor));
    ordered.push_back(tensor);
  }
  for (const auto& [name, tensor] : given) {
    bool known = std::find(dropped.begin(), dropped.end(), name) != dropped.end();
    for (const ValueInfo& info : expected) known = known || info.name == name;
    if (!known) return fail(bad_input(name, "the model has no such input", "see portwright inspect"));
  }
  return ordered;
}

const std::vector<Shape>* ShapeMemory::find(const std::vector<const Tensor*>& inputs) const {
  if (!trusted_) return nullptr;
  const auto it = known_.find(shapes_of(inputs));
  return it == known_.end() ? nullptr : &it->second;
}

void ShapeMemory::remember(const std::vector<const Tensor*>& inputs, std::vector<Shape> outputs) {
  if (trusted_) known_[shapes_of(inputs)] = std::move(outputs);
}

}  // namespace portwright
