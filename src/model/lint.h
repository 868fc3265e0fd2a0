// Things in a valid model that make it odd, slow or hard for engines.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

#include "model/inference.h"
#include "portwright/model.h"

namespace portwright {

// Warnings and notes about the top-level graph, one for each node or tensor concerned. `types` is an inference of
// `model`. Codes: unused_initializer, dead_node, float64, training_mode, random_operator, duplicate_node_name,
// redundant_cast, cast_pair, transpose_pair, int64_initializer, initializer_is_input, weight_in_constant,
// custom_operator, old_opset, duplicate_opset.
std::vector<Finding> lint(const onnx::ModelProto& model, const Inferred& types);

// Findings that need the bytes of constants. Codes: int64_beyond_int32, duplicate_initializer.
std::vector<Finding> lint_constants(const Model& model);

// A few words for each code that occurs, with its count: "3 unused initializers".
std::vector<std::string> oddities_of(const std::vector<Finding>& findings);

// At most `most` findings of each code; the last one kept says how many more there are.
std::vector<Finding> collapsed(std::vector<Finding> findings, std::size_t most);

}  // namespace portwright
