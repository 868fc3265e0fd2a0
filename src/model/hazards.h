// Models on which the ONNX library does not come to an end. They are refused when they are loaded.
#pragma once

#include <onnx/onnx_pb.h>

#include "portwright/result.h"

namespace portwright {

// Error (Fault::input): bad_attribute, with the node as `where`.
Status check_hazards(const onnx::ModelProto& model);

}  // namespace portwright
