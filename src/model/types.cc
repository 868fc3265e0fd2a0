#include "model/types.h"

#include "model/tensors.h"

namespace portwright {
namespace {

std::string tensor_text(int elem_type, bool has_shape, const onnx::TensorShapeProto& shape) {
  return type_name(elem_type) + (has_shape ? shape_text(shape) : "[...]");
}

}  // namespace

std::string shape_text(const onnx::TensorShapeProto& shape) {
  std::string out = "[";
  for (int i = 0; i < shape.dim_size(); ++i) {
    const auto& dim = shape.dim(i);
    out += i == 0 ? "" : ", ";
    out += dim.has_dim_value() ? std::to_string(dim.dim_value()) : dim.dim_param().empty() ? "?" : dim.dim_param();
  }
  return out + "]";
}

std::string type_text(const onnx::TypeProto& type) {
  switch (type.value_case()) {
    case onnx::TypeProto::kTensorType:
      return tensor_text(type.tensor_type().elem_type(), type.tensor_type().has_shape(), type.tensor_type().shape());
    case onnx::TypeProto::kSparseTensorType:
      return "sparse " + tensor_text(type.sparse_tensor_type().elem_type(), type.sparse_tensor_type().has_shape(),
                                     type.sparse_tensor_type().shape());
    case onnx::TypeProto::kSequenceType:
      return "sequence(" + type_text(type.sequence_type().elem_type()) + ")";
    case onnx::TypeProto::kOptionalType:
      return "optional(" + type_text(type.optional_type().elem_type()) + ")";
    case onnx::TypeProto::kMapType:
      return "map(" + type_name(type.map_type().key_type()) + ", " + type_text(type.map_type().value_type()) + ")";
    case onnx::TypeProto::kOpaqueType:
      return "opaque(" + type.opaque_type().name() + ")";
    default:
      return "unknown";
  }
}

ValueInfo value_info_of(const onnx::ValueInfoProto& info) {
  ValueInfo out;
  out.name = info.name();
  out.type_text = type_text(info.type());
  if (!info.type().has_tensor_type()) return out;
  const auto& tensor = info.type().tensor_type();
  out.dtype = dtype_of(tensor.elem_type());
  out.has_shape = tensor.has_shape();
  for (const auto& dim : tensor.shape().dim()) {
    Dimension dimension;
    if (dim.has_dim_value()) {
      dimension.value = dim.dim_value();
    } else {
      dimension.symbol = dim.dim_param();
    }
    out.shape.push_back(std::move(dimension));
  }
  return out;
}

std::optional<std::vector<std::int64_t>> static_shape(const onnx::TypeProto* type) {
  if (type == nullptr || !type->has_tensor_type() || !type->tensor_type().has_shape()) return std::nullopt;
  std::vector<std::int64_t> out;
  for (const auto& dim : type->tensor_type().shape().dim()) {
    if (!dim.has_dim_value() || dim.dim_value() < 0) return std::nullopt;
    out.push_back(dim.dim_value());
  }
  return out;
}

std::optional<std::uint64_t> static_elements(const onnx::TypeProto* type) {
  const auto shape = static_shape(type);
  if (!shape) return std::nullopt;
  Dims dims;
  for (const std::int64_t dim : *shape) dims.Add(dim);
  return count_of(dims);
}

}  // namespace portwright
