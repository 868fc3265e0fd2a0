// Small ONNX models made in memory, written to a folder of the test.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/files.h"
#include "portwright/model.h"

namespace portwright::test {

struct GraphMaker {
  onnx::ModelProto model;

  explicit GraphMaker(std::int64_t opset = 17) {
    model.set_ir_version(8);
    auto* import = model.add_opset_import();
    import->set_domain("");
    import->set_version(opset);
    model.mutable_graph()->set_name("test");
  }
  // Dimensions: a number, or a name for a dynamic axis.
  static void set_type(onnx::ValueInfoProto* value, const std::string& name, int type,
                       const std::vector<std::string>& dims) {
    value->set_name(name);
    auto* tensor = value->mutable_type()->mutable_tensor_type();
    tensor->set_elem_type(type);
    auto* shape = tensor->mutable_shape();
    for (const auto& dim : dims) {
      if (std::isdigit(static_cast<unsigned char>(dim[0])))
        shape->add_dim()->set_dim_value(std::stoll(dim));
      else
        shape->add_dim()->set_dim_param(dim);
    }
  }
  GraphMaker& input(const std::string& name, const std::vector<std::string>& dims,
                    int type = onnx::TensorProto::FLOAT) {
    set_type(model.mutable_graph()->add_input(), name, type, dims);
    return *this;
  }
  GraphMaker& output(const std::string& name, const std::vector<std::string>& dims,
                     int type = onnx::TensorProto::FLOAT) {
    set_type(model.mutable_graph()->add_output(), name, type, dims);
    return *this;
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& domain = "") {
    auto* node = model.mutable_graph()->add_node();
    node->set_op_type(op);
    node->set_name("node_" + outputs[0]);
    node->set_domain(domain);
    for (const auto& name : inputs) node->add_input(name);
    for (const auto& name : outputs) node->add_output(name);
    return *node;
  }
  GraphMaker& weight(const std::string& name, const std::vector<std::int64_t>& dims, const std::vector<float>& values) {
    auto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    for (const auto dim : dims) tensor->add_dims(dim);
    tensor->set_raw_data(values.data(), values.size() * sizeof(float));
    return *this;
  }
  std::filesystem::path save(const std::filesystem::path& folder, const std::string& name = "model.onnx") const {
    std::ofstream out(folder / name, std::ios::binary);
    model.SerializeToOstream(&out);
    return folder / name;
  }
};

// y[batch, 64] = x[batch, 64] * w + 1, with w[64] large enough to stay on disk in another test: 512 columns.
inline GraphMaker scale_and_shift(std::int64_t columns = 512) {
  std::vector<float> scale(static_cast<std::size_t>(columns));
  for (std::size_t i = 0; i < scale.size(); ++i) scale[i] = static_cast<float>(i % 7) - 3;
  GraphMaker maker;
  maker.input("x", {"batch", std::to_string(columns)}).output("y", {"batch", std::to_string(columns)});
  maker.weight("w", {columns}, scale).weight("one", {1}, {1.0F});
  maker.node("Mul", {"x", "w"}, {"scaled"});
  maker.node("Add", {"scaled", "one"}, {"y"});
  return maker;
}

}  // namespace portwright::test
