// Memory that activations take.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>

#include "model/inference.h"

namespace portwright {

// Most bytes of inputs and intermediate results that are alive at once when the nodes run in order and each value is
// freed behind its last reader. At the shapes of `types`, an inference of `model`; nullopt when one is not known.
std::optional<std::uint64_t> peak_activation_bytes(const onnx::ModelProto& model, const Inferred& types);

}  // namespace portwright
