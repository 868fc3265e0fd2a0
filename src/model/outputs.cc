// The model with its inner values laid open.
#include <unordered_set>

#include "model/impl.h"
#include "model/inference.h"
#include "model/tensors.h"

namespace portwright {
namespace {

bool is_float_type(int onnx_type) {
  const auto dtype = dtype_of(onnx_type);
  return dtype && is_float(*dtype);
}

}  // namespace

Model Model::with_all_outputs() const {
  const Inferred types = infer(impl_->proto, Declared::kept);
  onnx::ModelProto proto = impl_->proto;
  auto& graph = *proto.mutable_graph();
  std::unordered_set<std::string> known;
  for (const auto& output : graph.output()) known.insert(output.name());
  for (const auto& node : graph.node()) {
    for (const auto& name : node.output()) {
      const auto* type = name.empty() ? nullptr : types.type(name);
      // An output needs its element type: engines refuse one without.
      if (type == nullptr || !type->has_tensor_type() || !is_float_type(type->tensor_type().elem_type())) continue;
      if (!known.insert(name).second) continue;
      auto* output = graph.add_output();
      output->set_name(name);
      *output->mutable_type() = *type;
    }
  }
  return impl_->with(std::move(proto));
}

}  // namespace portwright
