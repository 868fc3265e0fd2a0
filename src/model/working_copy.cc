#include "model/working_copy.h"

#include "model/tensors.h"

namespace portwright {
namespace {

google::protobuf::ArenaOptions roomy() {
  google::protobuf::ArenaOptions options;
  options.start_block_size = std::size_t{1} << 14;
  options.max_block_size = std::size_t{1} << 18;
  return options;
}

void copy_attribute(const onnx::AttributeProto& from, onnx::AttributeProto& to) {
  if (!from.has_g() && from.graphs_size() == 0) {
    to.CopyFrom(from);
    return;
  }
  to.set_name(from.name());
  if (from.has_type()) to.set_type(from.type());
  if (from.has_ref_attr_name()) to.set_ref_attr_name(from.ref_attr_name());
  if (from.has_doc_string()) to.set_doc_string(from.doc_string());
  if (from.has_g()) to.mutable_g();
  for (int i = 0; i < from.graphs_size(); ++i) to.add_graphs();
}

}  // namespace

WorkingCopy::WorkingCopy()
    : arena_(std::make_unique<google::protobuf::Arena>(roomy())),
      model_(google::protobuf::Arena::CreateMessage<onnx::ModelProto>(arena_.get())) {}

onnx::TypeProto& WorkingCopy::new_type() {
  return *google::protobuf::Arena::CreateMessage<onnx::TypeProto>(arena_.get());
}

void copy(const onnx::TensorProto& from, Form form, onnx::TensorProto& to) {
  if (form == Form::whole || !is_external(from)) {
    to.CopyFrom(from);
    return;
  }
  to.set_name(from.name());
  to.set_data_type(from.data_type());
  *to.mutable_dims() = from.dims();
  to.set_data_location(from.data_location());
}

void copy_operator(const onnx::NodeProto& from, onnx::NodeProto& to) {
  if (from.has_name()) to.set_name(from.name());
  if (from.has_op_type()) to.set_op_type(from.op_type());
  if (from.has_domain()) to.set_domain(from.domain());
  if (from.has_overload()) to.set_overload(from.overload());
  for (const auto& attribute : from.attribute()) copy_attribute(attribute, *to.add_attribute());
  *to.mutable_device_configurations() = from.device_configurations();
  if (!from.unknown_fields().empty()) to.mutable_unknown_fields()->MergeFrom(from.unknown_fields());
}

void copy_bare(const onnx::GraphProto& from, onnx::GraphProto& to) {
  to.set_name(from.name());
  to.mutable_node()->Reserve(from.node_size());
  for (const auto& node : from.node()) {
    auto& out = *to.add_node();
    copy_operator(node, out);
    *out.mutable_input() = node.input();
    *out.mutable_output() = node.output();
    for (int i = 0; i < node.attribute_size(); ++i) {
      if (node.attribute(i).has_g()) copy_bare(node.attribute(i).g(), *out.mutable_attribute(i)->mutable_g());
      for (int k = 0; k < node.attribute(i).graphs_size(); ++k)
        copy_bare(node.attribute(i).graphs(k), *out.mutable_attribute(i)->mutable_graphs(k));
    }
  }
  for (const auto& tensor : from.initializer()) copy(tensor, Form::bare, *to.add_initializer());
  *to.mutable_sparse_initializer() = from.sparse_initializer();
  *to.mutable_input() = from.input();
  *to.mutable_output() = from.output();
  *to.mutable_value_info() = from.value_info();
}

void copy_bare_shell(const onnx::ModelProto& from, onnx::ModelProto& to) {
  to.set_ir_version(from.ir_version());
  *to.mutable_opset_import() = from.opset_import();
  *to.mutable_functions() = from.functions();
}

}  // namespace portwright
