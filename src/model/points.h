// Shape arithmetic at fixed sizes: what cannot be is found before any engine looks at the model.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/inference.h"
#include "portwright/model.h"

namespace portwright {

// The first node that fails at each size, as one finding for each such node, with code shape_at_size. When `sizes` is
// empty every symbol of a first axis is tried at 1 to 4, and a node counts when it fails at three of them or more: then
// one size is frozen into it. `symbolic` is an inference of `model` without declared types; what it says is not
// repeated.
std::vector<Finding> check_points(const onnx::ModelProto& model, const Inferred& symbolic,
                                  const std::vector<std::map<std::string, std::int64_t>>& sizes);

}  // namespace portwright
