// Tensors of a model's structure: where they are in the graph, how large their data is, and where it lies.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/wire.h"
#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

using Dims = google::protobuf::RepeatedField<std::int64_t>;

// Elements of these dimensions; nullopt when one is negative or the product overflows.
std::optional<std::uint64_t> count_of(const Dims& dims);
// Bytes of raw data of a tensor: sub-byte types are packed. nullopt for strings, unknown types and bad dimensions.
std::optional<std::uint64_t> raw_bytes(int onnx_type, const Dims& dims);

// The dtype of ONNX's number for it, where Portwright has one; and back.
std::optional<Dtype> dtype_of(int onnx_type);
int onnx_type_of(Dtype dtype);
// "float32", "string", "float8e4m3fn", ...; for every type of ONNX.
std::string type_name(int onnx_type);

bool is_external(const onnx::TensorProto& tensor);
// The external-data entry with that key; nullptr when absent.
const std::string* external_entry(const onnx::TensorProto& tensor, const std::string& key);

// Where an external tensor's data lies, relative to the model's folder.
struct Placement {
  std::string location;
  std::uint64_t offset = 0, length = 0;
};
// For tensors of a loaded model, whose entries are complete and checked.
Placement placement_of(const onnx::TensorProto& tensor);
// Makes a tensor external (or moves it): replaces its entries, drops data that it holds.
void place(onnx::TensorProto& tensor, const Placement& placement);

// Visits every TensorProto: initializers, sparse ones, attributes, subgraphs, functions, training graphs. The visitor
// returns false to stop.
using TensorVisitor = std::function<bool(onnx::TensorProto&)>;
void for_each_tensor(onnx::ModelProto& model, const TensorVisitor& visit);
void for_each_tensor(const onnx::ModelProto& model, const std::function<bool(const onnx::TensorProto&)>& visit);

// Visits a graph and all graphs inside its nodes, outermost first.
void for_each_graph(const onnx::GraphProto& graph, const std::function<void(const onnx::GraphProto&)>& visit);

}  // namespace portwright
