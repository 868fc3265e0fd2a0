// Small models for tests, written as ONNX protobufs: not by the code that is tested.
#pragma once

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <variant>
#include <vector>

#include "base/files.h"
#include "portwright/model.h"

namespace portwright::test {

using onnx::TensorProto;
using Dim = std::variant<int, const char*>;

class Builder {
 public:
  explicit Builder(std::int64_t opset = 18, std::int64_t ir_version = 9) {
    model.set_ir_version(ir_version);
    model.set_producer_name("builder");
    model.add_opset_import()->set_version(opset);
    graph().set_name("g");
  }
  onnx::GraphProto& graph() { return *model.mutable_graph(); }

  static void set_type(onnx::ValueInfoProto& info, const std::string& name, int type, const std::vector<Dim>& dims) {
    info.set_name(name);
    auto& tensor = *info.mutable_type()->mutable_tensor_type();
    tensor.set_elem_type(type);
    tensor.mutable_shape();
    for (const Dim& dim : dims) {
      auto* out = tensor.mutable_shape()->add_dim();
      if (const int* value = std::get_if<int>(&dim)) {
        out->set_dim_value(*value);
      } else {
        out->set_dim_param(std::get<const char*>(dim));
      }
    }
  }
  Builder& input(const std::string& name, const std::vector<Dim>& dims, int type = TensorProto::FLOAT) {
    set_type(*graph().add_input(), name, type, dims);
    return *this;
  }
  Builder& output(const std::string& name, const std::vector<Dim>& dims, int type = TensorProto::FLOAT) {
    set_type(*graph().add_output(), name, type, dims);
    return *this;
  }
  Builder& value(const std::string& name, const std::vector<Dim>& dims, int type = TensorProto::FLOAT) {
    set_type(*graph().add_value_info(), name, type, dims);
    return *this;
  }

  // Floats that differ from one another, small enough for sums to stay small.
  static void fill(TensorProto& tensor, const std::string& name, const std::vector<int>& dims) {
    std::vector<float> values(1);
    std::size_t count = 1;
    for (const int dim : dims) {
      tensor.add_dims(dim);
      count *= static_cast<std::size_t>(dim);
    }
    values.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      values[i] = std::sin(static_cast<float>(i) + static_cast<float>(name.size())) * 0.1F;
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.set_raw_data(values.data(), values.size() * sizeof(float));
  }
  Builder& weights(const std::string& name, const std::vector<int>& dims) {
    fill(*graph().add_initializer(), name, dims);
    return *this;
  }
  Builder& integers(const std::string& name, const std::vector<std::int64_t>& values) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(TensorProto::INT64);
    tensor.add_dims(static_cast<std::int64_t>(values.size()));
    tensor.set_raw_data(values.data(), values.size() * sizeof(std::int64_t));
    return *this;
  }

  static onnx::NodeProto& add_node(onnx::GraphProto& graph, const std::string& op,
                                   const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                                   const std::string& name = "") {
    auto& node = *graph.add_node();
    node.set_op_type(op);
    if (!name.empty()) node.set_name(name);
    for (const auto& input : inputs) node.add_input(input);
    for (const auto& output : outputs) node.add_output(output);
    return node;
  }
  onnx::NodeProto& node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& name = "") {
    return add_node(graph(), op, inputs, outputs, name);
  }

  onnx::ModelProto model;
};

inline void set_attribute(onnx::NodeProto& node, const std::string& name, std::int64_t value) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INT);
  attribute.set_i(value);
}
inline void set_attribute(onnx::NodeProto& node, const std::string& name, const std::vector<std::int64_t>& values) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::INTS);
  for (const auto value : values) attribute.add_ints(value);
}
inline onnx::GraphProto& set_graph(onnx::NodeProto& node, const std::string& name) {
  auto& attribute = *node.add_attribute();
  attribute.set_name(name);
  attribute.set_type(onnx::AttributeProto::GRAPH);
  attribute.mutable_g()->set_name(name);
  return *attribute.mutable_g();
}
inline void set_metadata(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  auto* entry = node.add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}
inline void set_external(TensorProto& tensor, const std::string& location, const std::string& offset,
                         const std::string& length) {
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.set_data_location(TensorProto::EXTERNAL);
  for (const auto& [key, value] : {std::pair{"location", location}, {"offset", offset}, {"length", length}}) {
    if (value.empty()) continue;
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }
}

// y = relu(x @ w0) @ w1, w0 and w1 large, b small; dynamic batch.
inline Builder two_layers() {
  Builder builder;
  builder.input("x", {"batch", 32})
      .output("y", {"batch", 16})
      .weights("w0", {32, 24})
      .weights("b", {24})
      .weights("w1", {24, 16});
  builder.node("MatMul", {"x", "w0"}, {"h0"}, "first");
  builder.node("Add", {"h0", "b"}, {"h1"}, "bias");
  builder.node("Relu", {"h1"}, {"h2"}, "relu");
  builder.node("MatMul", {"h2", "w1"}, {"y"}, "second");
  return builder;
}

inline void write_bytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}
inline std::string read_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder for one test, and models in it.
class ModelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = ScratchFolder::make("portwright-model-");
    ASSERT_TRUE(made);
    scratch_.emplace(std::move(*made));
  }
  std::filesystem::path path(const std::string& name) const { return scratch_->path() / name; }
  std::filesystem::path write(const onnx::ModelProto& model, const std::string& name = "m.onnx") const {
    write_bytes(path(name), model.SerializeAsString());
    return path(name);
  }
  static Model load(const std::filesystem::path& file) {
    auto model = Model::load(file);
    if (!model) throw std::runtime_error(model.error().code + ": " + model.error().message);
    return *model;
  }
  Model load(const onnx::ModelProto& model, const std::string& name = "m.onnx") const {
    return load(write(model, name));
  }
  // The code that loading fails with; "" when it succeeds.
  static std::string load_code(const std::filesystem::path& file) {
    auto model = Model::load(file);
    if (model) return "";
    EXPECT_EQ(model.error().fault, Fault::input);
    EXPECT_FALSE(model.error().message.empty());
    EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
    EXPECT_NE((model.error().message + model.error().where).find(file.filename().string()), std::string::npos)
        << model.error().message;
    return model.error().code;
  }
  static onnx::ModelProto structure(const Model& model) {
    onnx::ModelProto proto;
    EXPECT_TRUE(proto.ParseFromString(model.structure().value()));
    return proto;
  }

 private:
  std::optional<ScratchFolder> scratch_;
};

inline std::vector<std::string> codes(const std::vector<Finding>& findings, Severity severity) {
  std::vector<std::string> out;
  for (const auto& finding : findings)
    if (finding.severity == severity) out.push_back(finding.code + "@" + finding.node);
  return out;
}

}  // namespace portwright::test
