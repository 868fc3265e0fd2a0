// Copies of a model's structure to run the ONNX library on and then throw away.
#pragma once

#include <google/protobuf/arena.h>
#include <onnx/onnx_pb.h>

#include <memory>

namespace portwright {

// How much of a structure a copy takes.
enum class Form {
  whole,
  bare,  // what inference looks at: no documentation, no metadata, and not where large tensors lie. Half, or less
};

// An empty model in an arena: faster to fill and to free than on the heap, and what belongs together lies together.
class WorkingCopy {
 public:
  WorkingCopy();
  onnx::ModelProto& model() { return *model_; }
  const onnx::ModelProto& model() const { return *model_; }
  // One more message that lives as long as the model.
  onnx::TypeProto& new_type();

 private:
  std::unique_ptr<google::protobuf::Arena> arena_;
  onnx::ModelProto* model_;
};

void copy(const onnx::TensorProto& from, Form form, onnx::TensorProto& to);
// Name, operator and attributes; no inputs, no outputs, no remarks. Attributes that hold graphs get empty ones.
void copy_operator(const onnx::NodeProto& from, onnx::NodeProto& to);
// All of a graph, in the bare form.
void copy_bare(const onnx::GraphProto& from, onnx::GraphProto& to);
// All of a model but its graph, in the bare form.
void copy_bare_shell(const onnx::ModelProto& from, onnx::ModelProto& to);

}  // namespace portwright
