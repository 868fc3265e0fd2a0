// The digest of a model: of the bytes that protobuf would write for it, with the digest of each tensor's raw data in
// place of the data. So it does not matter where the data lies.
#include "base/digest.h"

#include <map>

#include "base/files.h"
#include "model/stream.h"

namespace portwright {
namespace {

class WeightDigests {
 public:
  explicit WeightDigests(const Model::Impl& model) : model_(model) {}

  Result<std::string> of(const onnx::TensorProto& tensor) {
    if (!is_external(tensor)) return digest(std::string_view(tensor.raw_data()));
    const Placement placement = placement_of(tensor);
    auto& mapping = mappings_[placement.location];
    if (!mapping) {
      PW_TRY(file, model_.weight_file(placement.location));
      PW_TRY(opened, Mapping::open(file));
      mapping = opened;
    }
    return digest(mapping->bytes().subspan(placement.offset, placement.length));
  }

 private:
  const Model::Impl& model_;
  std::map<std::string, std::shared_ptr<const Mapping>> mappings_;
};

}  // namespace

Result<std::string> Model::digest() const {
  WeightDigests digests(*impl_);
  auto rope = with_payloads(impl_->proto, [&](const onnx::TensorProto& tensor) -> Result<std::optional<wire::Rope>> {
    if (!is_external(tensor) && !tensor.has_raw_data()) return std::nullopt;
    PW_TRY(digested, digests.of(tensor));
    wire::Rope payload;
    payload.add(digested);
    return payload;
  });
  if (!rope) return fail(std::move(rope.error()));
  return portwright::digest(std::move(*rope).text());
}

}  // namespace portwright
