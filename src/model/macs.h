// Multiply-adds of a graph.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>

#include "model/inference.h"

namespace portwright {

// At the shapes of `types`, an inference of `model`, which has no local functions. nullopt when a node that multiplies
// has shapes that inference cannot tell, or lies in a loop or branch whose number of runs is not known.
std::optional<std::uint64_t> count_macs(const onnx::ModelProto& model, const Inferred& types);

}  // namespace portwright
