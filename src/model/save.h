// Saving with all weights in a new data file; shared by Model::save and by what changes weights.
#pragma once

#include <filesystem>
#include <functional>

#include "model/impl.h"
#include "model/tensors.h"
#include "model/wire.h"

namespace portwright {

// Appends the bytes of one tensor to `fd` and gives their count.
using WriteTensor =
    std::function<Result<std::uint64_t>(const onnx::TensorProto& tensor, const wire::FileRange& bytes, int fd)>;

// Writes `proto`, whose external tensors are those of `model`, as `file` and `file`.data.
Status save_external(const Model::Impl& model, onnx::ModelProto proto, const std::filesystem::path& file,
                     const WriteTensor& write);

}  // namespace portwright
