#include "model/tensors.h"

#include <array>
#include <charconv>
#include <utility>

namespace portwright {
namespace {

struct TypeRow {
  int onnx_type;
  const char* name;
  std::optional<Dtype> dtype;
  unsigned bits;  // of one element in raw data; 0: none
};
using onnx::TensorProto;
constexpr std::array<TypeRow, 28> kTypes{{
    {TensorProto::FLOAT, "float32", Dtype::f32, 32},
    {TensorProto::UINT8, "uint8", Dtype::u8, 8},
    {TensorProto::INT8, "int8", Dtype::i8, 8},
    {TensorProto::UINT16, "uint16", Dtype::u16, 16},
    {TensorProto::INT16, "int16", Dtype::i16, 16},
    {TensorProto::INT32, "int32", Dtype::i32, 32},
    {TensorProto::INT64, "int64", Dtype::i64, 64},
    {TensorProto::STRING, "string", std::nullopt, 0},
    {TensorProto::BOOL, "bool", Dtype::boolean, 8},
    {TensorProto::FLOAT16, "float16", Dtype::f16, 16},
    {TensorProto::DOUBLE, "float64", Dtype::f64, 64},
    {TensorProto::UINT32, "uint32", Dtype::u32, 32},
    {TensorProto::UINT64, "uint64", Dtype::u64, 64},
    {TensorProto::COMPLEX64, "complex64", Dtype::c64, 64},
    {TensorProto::COMPLEX128, "complex128", Dtype::c128, 128},
    {TensorProto::BFLOAT16, "bfloat16", Dtype::bf16, 16},
    {TensorProto::FLOAT8E4M3FN, "float8e4m3fn", std::nullopt, 8},
    {TensorProto::FLOAT8E4M3FNUZ, "float8e4m3fnuz", std::nullopt, 8},
    {TensorProto::FLOAT8E5M2, "float8e5m2", std::nullopt, 8},
    {TensorProto::FLOAT8E5M2FNUZ, "float8e5m2fnuz", std::nullopt, 8},
    {TensorProto::UINT4, "uint4", std::nullopt, 4},
    {TensorProto::INT4, "int4", std::nullopt, 4},
    {TensorProto::FLOAT4E2M1, "float4e2m1", std::nullopt, 4},
    {TensorProto::FLOAT8E8M0, "float8e8m0", std::nullopt, 8},
    {TensorProto::UINT2, "uint2", std::nullopt, 2},
    {TensorProto::INT2, "int2", std::nullopt, 2},
    {TensorProto::FLOAT6E2M3, "float6e2m3", std::nullopt, 6},
    {TensorProto::FLOAT6E3M2, "float6e3m2", std::nullopt, 6},
}};

const TypeRow* row_of(int onnx_type) {
  for (const TypeRow& row : kTypes)
    if (row.onnx_type == onnx_type) return &row;
  return nullptr;
}

}  // namespace

std::optional<std::uint64_t> count_of(const Dims& dims) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;  // leaves room for the bits of an element
  std::uint64_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (static_cast<std::uint64_t>(dim) > kMost / count) return std::nullopt;
    count *= static_cast<std::uint64_t>(dim);
  }
  return empty ? 0 : count;
}

std::optional<std::uint64_t> raw_bytes(int onnx_type, const Dims& dims) {
  const TypeRow* row = row_of(onnx_type);
  const auto count = count_of(dims);
  if (row == nullptr || row->bits == 0 || !count) return std::nullopt;
  return (*count * row->bits + 7) / 8;
}

std::optional<Dtype> dtype_of(int onnx_type) {
  const TypeRow* row = row_of(onnx_type);
  return row == nullptr ? std::nullopt : row->dtype;
}

int onnx_type_of(Dtype dtype) {
  for (const TypeRow& row : kTypes)
    if (row.dtype == dtype) return row.onnx_type;
  return TensorProto::UNDEFINED;
}

std::string type_name(int onnx_type) {
  const TypeRow* row = row_of(onnx_type);
  return row == nullptr ? "type " + std::to_string(onnx_type) : row->name;
}

bool is_external(const onnx::TensorProto& tensor) { return tensor.data_location() == onnx::TensorProto::EXTERNAL; }

const std::string* external_entry(const onnx::TensorProto& tensor, const std::string& key) {
  for (const auto& entry : tensor.external_data())
    if (entry.key() == key) return &entry.value();
  return nullptr;
}

namespace {

std::uint64_t number_entry(const onnx::TensorProto& tensor, const std::string& key) {
  const std::string* text = external_entry(tensor, key);
  std::uint64_t value = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), value);
  return value;
}

}  // namespace

Placement placement_of(const onnx::TensorProto& tensor) {
  const std::string* location = external_entry(tensor, "location");
  return {location == nullptr ? "" : *location, number_entry(tensor, "offset"), number_entry(tensor, "length")};
}

void place(onnx::TensorProto& tensor, const Placement& placement) {
  tensor.clear_raw_data();
  tensor.clear_float_data();
  tensor.clear_double_data();
  tensor.clear_external_data();
  const auto add = [&](const char* key, std::string value) {
    auto* entry = tensor.add_external_data();
    entry->set_key(key);
    entry->set_value(std::move(value));
  };
  add("location", placement.location);
  add("offset", std::to_string(placement.offset));
  add("length", std::to_string(placement.length));
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
}

namespace {

class TensorWalk {
 public:
  explicit TensorWalk(const std::function<bool(const onnx::TensorProto&)>& visit) : visit_(visit) {}

  void model(const onnx::ModelProto& value) {
    graph(value.graph());
    for (const auto& training : value.training_info()) {
      graph(training.initialization());
      graph(training.algorithm());
    }
    for (const auto& function : value.functions()) {
      for (const auto& each : function.node()) node(each);
      for (const auto& each : function.attribute_proto()) attribute(each);
    }
  }

 private:
  void tensor(const onnx::TensorProto& value) { going_ = going_ && visit_(value); }
  void sparse(const onnx::SparseTensorProto& value) {
    if (value.has_values()) tensor(value.values());
    if (value.has_indices()) tensor(value.indices());
  }
  void attribute(const onnx::AttributeProto& value) {
    if (value.has_t()) tensor(value.t());
    for (const auto& each : value.tensors()) tensor(each);
    if (value.has_sparse_tensor()) sparse(value.sparse_tensor());
    for (const auto& each : value.sparse_tensors()) sparse(each);
    if (value.has_g()) graph(value.g());
    for (const auto& each : value.graphs()) graph(each);
  }
  void node(const onnx::NodeProto& value) {
    for (const auto& each : value.attribute()) attribute(each);
  }
  void graph(const onnx::GraphProto& value) {
    if (!going_) return;
    for (const auto& each : value.initializer()) tensor(each);
    for (const auto& each : value.sparse_initializer()) sparse(each);
    for (const auto& each : value.node()) node(each);
  }

  const std::function<bool(const onnx::TensorProto&)>& visit_;
  bool going_ = true;
};

}  // namespace

void for_each_tensor(const onnx::ModelProto& model, const std::function<bool(const onnx::TensorProto&)>& visit) {
  TensorWalk(visit).model(model);
}

void for_each_tensor(onnx::ModelProto& model, const TensorVisitor& visit) {
  // The walk only looks; what it hands out belongs to a model that the caller may change.
  const auto mutably = [&](const onnx::TensorProto& tensor) { return visit(const_cast<onnx::TensorProto&>(tensor)); };
  for_each_tensor(std::as_const(model), mutably);
}

void for_each_graph(const onnx::GraphProto& graph, const std::function<void(const onnx::GraphProto&)>& visit) {
  visit(graph);
  for (const auto& node : graph.node()) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_g()) for_each_graph(attribute.g(), visit);
      for (const auto& each : attribute.graphs()) for_each_graph(each, visit);
    }
  }
}

}  // namespace portwright
