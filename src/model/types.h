// Declared types and shapes, from ONNX's form to Portwright's.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "portwright/model.h"

namespace portwright {

ValueInfo value_info_of(const onnx::ValueInfoProto& info);
// "float32[batch, 3, 224, 224]", "sequence(int64[])", "optional(...)", "unknown".
std::string type_text(const onnx::TypeProto& type);
// "[batch, 3, ?]".
std::string shape_text(const onnx::TensorShapeProto& shape);

// All dimensions as numbers; nullopt when the type is no tensor or a dimension is not known.
std::optional<std::vector<std::int64_t>> static_shape(const onnx::TypeProto* type);
// Their product; nullopt too when it does not fit.
std::optional<std::uint64_t> static_elements(const onnx::TypeProto* type);

}  // namespace portwright
