// The constants of a graph: read, compared, sampled.
#include <algorithm>
#include <cstring>

#include "model/graph_impl.h"
#include "model/stream.h"
#include "model/tensors.h"
#include "model/uses.h"
#include "portwright/graph.h"

namespace portwright {

namespace {

// How many elements the typed field has in which the standard keeps this type.
std::size_t typed_count(const onnx::TensorProto& tensor, Dtype dtype) {
  switch (dtype) {
    case Dtype::f32:
      return static_cast<std::size_t>(tensor.float_data_size());
    case Dtype::f64:
      return static_cast<std::size_t>(tensor.double_data_size());
    case Dtype::c64:
      return static_cast<std::size_t>(tensor.float_data_size()) / 2;
    case Dtype::c128:
      return static_cast<std::size_t>(tensor.double_data_size()) / 2;
    case Dtype::i64:
      return static_cast<std::size_t>(tensor.int64_data_size());
    case Dtype::u64:
    case Dtype::u32:
      return static_cast<std::size_t>(tensor.uint64_data_size());
    default:
      return static_cast<std::size_t>(tensor.int32_data_size());
  }
}

template <class Element, class Field>
void copy_field(const Field& field, Tensor& out) {
  auto to = out.as_mutable<Element>();
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<Element>(field.Get(static_cast<int>(i)));
}

template <class Field>
void copy_pairs(const Field& field, Tensor& out) {
  std::memcpy(out.mutable_bytes().data(), field.data(), out.bytes().size());
}

void copy_typed(const onnx::TensorProto& tensor, Tensor& out) {
  switch (out.dtype()) {
    case Dtype::f32:
      return copy_field<float>(tensor.float_data(), out);
    case Dtype::f64:
      return copy_field<double>(tensor.double_data(), out);
    case Dtype::i64:
      return copy_field<std::int64_t>(tensor.int64_data(), out);
    case Dtype::u64:
      return copy_field<std::uint64_t>(tensor.uint64_data(), out);
    case Dtype::u32:
      return copy_field<std::uint32_t>(tensor.uint64_data(), out);
    case Dtype::i32:
      return copy_field<std::int32_t>(tensor.int32_data(), out);
    case Dtype::f16:
    case Dtype::bf16:
    case Dtype::u16:
    case Dtype::i16:
      return copy_field<std::uint16_t>(tensor.int32_data(), out);
    case Dtype::boolean:
    case Dtype::i8:
    case Dtype::u8:
      return copy_field<std::uint8_t>(tensor.int32_data(), out);
    case Dtype::c64:
      return copy_pairs(tensor.float_data(), out);
    case Dtype::c128:
      return copy_pairs(tensor.double_data(), out);
  }
}

Error unreadable(const onnx::TensorProto& tensor) {
  return {Fault::gate,
          "rewrite",
          "unreadable_constant",
          "the constant '" + tensor.name() + "' has a type or shape that cannot be read",
          tensor.name(),
          "",
          ""};
}

}  // namespace

// Nothing is allocated before the bytes are known to be there: a shape alone may say anything.
Result<Tensor> Graph::Impl::read(const onnx::TensorProto& tensor) const {
  const auto dtype = dtype_of(tensor.data_type());
  const Shape shape(tensor.dims().begin(), tensor.dims().end());
  const auto bytes = raw_bytes(tensor.data_type(), tensor.dims());
  const auto count = element_count(shape);
  if (!dtype || !bytes || !count) return fail(unreadable(tensor));
  if (is_external(tensor)) {
    Tensor out = Tensor::zeros(*dtype, shape);
    PW_TRY(range, range_of(wrapped({}).impl(), tensor));
    std::size_t done = 0;
    PW_CHECK(read_chunks(range, [&](std::span<const std::byte> chunk) -> Status {
      std::copy(chunk.begin(), chunk.end(), out.mutable_bytes().begin() + static_cast<std::ptrdiff_t>(done));
      done += chunk.size();
      return {};
    }));
    return out;
  }
  const bool raw = tensor.has_raw_data();
  if (raw ? tensor.raw_data().size() != *bytes : typed_count(tensor, *dtype) != *count) return fail(unreadable(tensor));
  Tensor out = Tensor::uninitialised(*dtype, shape);
  if (raw) {
    const auto* data = reinterpret_cast<const std::byte*>(tensor.raw_data().data());
    std::copy_n(data, out.bytes().size(), out.mutable_bytes().begin());
  } else {
    copy_typed(tensor, out);
  }
  return out;
}

bool Graph::is_constant(ValueId value) const {
  if (value == ValueId::none) return false;
  const auto& known = impl_->value(value);
  return known.constant && (!known.input || ir_version() < 4);
}

std::vector<ValueId> Graph::constants() const {
  std::vector<ValueId> out;
  for (const BlockId block : blocks())
    for (const ValueId value : impl_->block(block).initializers)
      if (is_constant(value)) out.push_back(value);
  return out;
}

std::uint64_t Graph::constant_bytes(ValueId value) const {
  if (!is_constant(value)) return 0;
  const auto& tensor = *impl_->value(value).constant;
  return raw_bytes(tensor.data_type(), tensor.dims()).value_or(tensor.ByteSizeLong());
}

Result<Tensor> Graph::constant(ValueId value) const {
  if (!is_constant(value))
    return fail({Fault::defect, "rewrite", "no_constant", "'" + name(value) + "' is no constant", name(value), "", ""});
  return impl_->read(*impl_->value(value).constant);
}

std::optional<std::vector<std::int64_t>> Graph::known_integers(ValueId value) const {
  if (value == ValueId::none) return std::nullopt;
  if (is_constant(value)) return integers_of(*impl_->value(value).constant);
  return impl_->value(value).known;
}

namespace {

// Whether the first bytes of a large tensor are equal elements; most that are not all equal show it here.
bool starts_uniform(const Model& owner, const onnx::TensorProto& tensor) {
  const std::size_t size = size_of(*dtype_of(tensor.data_type()));
  const auto range = range_of(owner.impl(), tensor);
  std::string head;
  const auto take = [&](auto bytes) -> Status {
    head.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return {};
  };
  if (!range || !read_chunks({range->file, range->offset, std::min<std::uint64_t>(range->size, size * 16)}, take))
    return false;
  for (std::size_t i = size; i < head.size(); ++i)
    if (head[i] != head[i - size]) return false;
  return true;
}

}  // namespace

std::optional<double> Graph::splat(ValueId value) const {
  if (!is_constant(value) || !dtype(value) || !is_float(*dtype(value))) return std::nullopt;
  const auto& tensor = *impl_->value(value).constant;
  if (is_external(tensor) && !starts_uniform(impl_->wrapped({}), tensor)) return std::nullopt;
  const auto read = constant(value);
  if (!read || !is_float(read->dtype()) || read->count() == 0) return std::nullopt;
  const Tensor wide = converted(*read, Dtype::f64);
  const auto all = wide.as<double>();
  for (const double one : all)
    if (!(one == all[0])) return std::nullopt;
  return all[0];
}

Result<std::string> Graph::sample(ValueId value) const {
  constexpr std::uint64_t kPart = 64;
  const auto& tensor = *impl_->value(value).constant;
  std::string key = std::to_string(tensor.data_type()) + ':';
  for (const std::int64_t dim : tensor.dims()) key += std::to_string(dim) + ',';
  if (!is_external(tensor)) {
    PW_TRY(read, impl_->read(tensor));
    return key + std::string(reinterpret_cast<const char*>(read.bytes().data()), read.bytes().size());
  }
  const Model owner = impl_->wrapped({});
  PW_TRY(range, range_of(owner.impl(), tensor));
  const std::uint64_t last = range.size - std::min(range.size, kPart);
  for (const std::uint64_t start : {std::uint64_t{0}, last / 2, last})
    PW_CHECK(read_chunks({range.file, range.offset + start, std::min(range.size, kPart)}, [&](auto bytes) -> Status {
      key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return {};
    }));
  return key;
}

Result<bool> Graph::same_constant(ValueId a, ValueId b) const {
  const auto& one = *impl_->value(a).constant;
  const auto& other = *impl_->value(b).constant;
  const bool same_dims = std::equal(one.dims().begin(), one.dims().end(), other.dims().begin(), other.dims().end());
  if (one.data_type() != other.data_type() || !same_dims) return false;
  if (is_external(one) && is_external(other)) {
    const Placement here = placement_of(one), there = placement_of(other);
    if (here.location == there.location && here.offset == there.offset && here.length == there.length) return true;
  }
  PW_TRY(left, impl_->read(one));
  PW_TRY(right, impl_->read(other));
  return std::equal(left.bytes().begin(), left.bytes().end(), right.bytes().begin(), right.bytes().end());
}

}  // namespace portwright
