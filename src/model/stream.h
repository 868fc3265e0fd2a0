// Moving weights between files without holding them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>

#include "model/impl.h"
#include "model/tensors.h"
#include "model/wire.h"
#include "portwright/result.h"

namespace portwright {

// The bytes of an external tensor; error weights_changed.
Result<wire::FileRange> range_of(const Model::Impl& model, const onnx::TensorProto& tensor);

inline constexpr std::size_t kChunk = std::size_t{1} << 20;
// Calls `use` with the bytes of a range, kChunk at a time and the rest at last. Error weights_changed when the file
// ends before.
Status read_chunks(const wire::FileRange& range, const std::function<Status(std::span<const std::byte>)>& use);

// Appends a range of a file to `fd`; within the kernel where the file systems can. `target` names the file in errors.
// Gives the size of the range.
Result<std::uint64_t> append_range(const wire::FileRange& range, int fd, const std::filesystem::path& target);
Status append_rope(const wire::Rope& rope, int fd, const std::filesystem::path& target);

// What shall stand in a tensor's raw_data; nullopt leaves the tensor as it is.
using Payload = std::function<Result<std::optional<wire::Rope>>(const onnx::TensorProto& tensor)>;
// The bytes that protobuf would write for this model if its tensors had these payloads inline.
Result<wire::Rope> with_payloads(const onnx::ModelProto& model, const Payload& payload);

}  // namespace portwright
