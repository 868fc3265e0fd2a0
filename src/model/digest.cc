// The digest of a model: of the bytes that protobuf would write for it, with the digest of each tensor's raw data in
// place of the data. So it does not matter where the data lies.
#include "base/digest.h"

#include <algorithm>

#include "model/stream.h"

namespace portwright {
namespace {

// The digests of the data's chunks, one behind another: the same for data in memory and on disk.
Result<std::string> data_digests(const Model::Impl& model, const onnx::TensorProto& tensor) {
  std::string out;
  if (!is_external(tensor)) {
    for (std::string_view left = tensor.raw_data(); !left.empty(); left.remove_prefix(std::min(left.size(), kChunk)))
      out += digest(left.substr(0, kChunk));
    return out;
  }
  PW_TRY(range, range_of(model, tensor));
  PW_CHECK(read_chunks(range, [&](std::span<const std::byte> chunk) -> Status {
    out += digest(chunk);
    return {};
  }));
  return out;
}

}  // namespace

Result<std::string> Model::digest() const {
  auto rope = with_payloads(impl_->proto, [&](const onnx::TensorProto& tensor) -> Result<std::optional<wire::Rope>> {
    if (!is_external(tensor) && !tensor.has_raw_data()) return std::nullopt;
    PW_TRY(digested, data_digests(*impl_, tensor));
    wire::Rope payload;
    payload.add(digested);
    return payload;
  });
  if (!rope) return fail(std::move(rope.error()));
  return portwright::digest(std::move(*rope).text());
}

}  // namespace portwright
