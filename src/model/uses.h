// Who makes and who reads each value of a graph, and which values are constants.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace portwright {

// Views into the graph, which must outlive this.
class Uses {
 public:
  explicit Uses(const onnx::GraphProto& graph);
  std::size_t readers(const std::string& value) const;              // nodes, subgraphs and graph outputs
  const onnx::NodeProto* producer(const std::string& value) const;  // top-level; nullptr for inputs and initializers
  // The tensor behind an initializer or a Constant node; nullptr when the value is computed.
  const onnx::TensorProto* constant(const std::string& value) const;

 private:
  std::unordered_map<std::string_view, const onnx::TensorProto*> initializers_;
  std::unordered_map<std::string_view, const onnx::NodeProto*> producers_;
  std::unordered_map<std::string_view, std::size_t> readers_;
};

std::int64_t integer_attribute(const onnx::NodeProto& node, std::string_view name, std::int64_t otherwise);

// Values of an int64, int32 or bool tensor that lies in the structure; nullopt for others.
std::optional<std::vector<std::int64_t>> integers_of(const onnx::TensorProto& tensor);

}  // namespace portwright
