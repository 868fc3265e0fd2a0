// The Model itself: a handle on an immutable structure, and what can be read off it without inference.
#include "portwright/model.h"

#include <onnx/common/constants.h>

#include <algorithm>
#include <unordered_set>

#include "model/impl.h"
#include "model/tensors.h"
#include "model/types.h"

namespace portwright {

Model::Model(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::Model(const Model&) = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model other) noexcept {
  impl_.swap(other.impl_);
  return *this;
}
Model::~Model() = default;

Model Model::Impl::wrap(Impl impl) { return Model(std::make_shared<Impl>(std::move(impl))); }

Model Model::Impl::with(onnx::ModelProto changed) const {
  Impl impl{std::move(changed), file, folder, weights, kept};
  return wrap(std::move(impl));
}

Result<std::string> Model::structure() const {
  std::string bytes;
  if (!impl_->proto.SerializeToString(&bytes))
    return fail({Fault::input, "load", "structure_too_large", "the structure of the model has more than 2 GB",
                 impl_->file.string(), "store weights as raw_data or external data", ""});
  return bytes;
}

bool Model::weights_beside() const {
  return std::all_of(impl_->weights.begin(), impl_->weights.end(), [&](const auto& entry) {
    const auto& [location, file] = entry;
    return file.path == impl_->folder / location;
  });
}

const std::filesystem::path& Model::folder() const { return impl_->folder; }
const std::filesystem::path& Model::file() const { return impl_->file; }
std::int64_t Model::ir_version() const { return impl_->proto.ir_version(); }

std::int64_t Model::opset() const {
  for (const auto& import : impl_->proto.opset_import())
    if (onnx::IsOnnxDomain(import.domain())) return import.version();
  return 0;
}

std::vector<ValueInfo> Model::inputs() const {
  const auto& graph = impl_->proto.graph();
  std::unordered_set<std::string_view> initialised;
  for (const auto& tensor : graph.initializer()) initialised.insert(tensor.name());
  for (const auto& sparse : graph.sparse_initializer()) initialised.insert(sparse.values().name());
  std::vector<ValueInfo> out;
  for (const auto& input : graph.input())
    if (!initialised.contains(input.name())) out.push_back(value_info_of(input));
  return out;
}

std::vector<ValueInfo> Model::outputs() const {
  std::vector<ValueInfo> out;
  for (const auto& output : impl_->proto.graph().output()) out.push_back(value_info_of(output));
  return out;
}

}  // namespace portwright
