// Multiply-adds of a graph.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>

namespace portwright {

// At the declared shapes with every symbol taken as 1; nullopt when a node that multiplies has shapes that inference
// cannot tell, or lies in a loop or branch whose number of runs is not known.
std::optional<std::uint64_t> count_macs(const onnx::ModelProto& model);

}  // namespace portwright
