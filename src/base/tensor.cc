#include "portwright/tensor.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

namespace portwright {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name, brief;
  std::size_t size;
};
constexpr std::array<DtypeRow, 15> kDtypes{{
    {Dtype::f32, "float32", "f32", 4},
    {Dtype::f64, "float64", "f64", 8},
    {Dtype::f16, "float16", "f16", 2},
    {Dtype::bf16, "bfloat16", "bf16", 2},
    {Dtype::i8, "int8", "i8", 1},
    {Dtype::i16, "int16", "i16", 2},
    {Dtype::i32, "int32", "i32", 4},
    {Dtype::i64, "int64", "i64", 8},
    {Dtype::u8, "uint8", "u8", 1},
    {Dtype::u16, "uint16", "u16", 2},
    {Dtype::u32, "uint32", "u32", 4},
    {Dtype::u64, "uint64", "u64", 8},
    {Dtype::boolean, "bool", "boolean", 1},
    {Dtype::c64, "complex64", "c64", 8},
    {Dtype::c128, "complex128", "c128", 16},
}};

// Cache-line aligned, so that engines can use the memory as it is.
std::shared_ptr<std::byte> allocate(std::size_t bytes, bool zeroed) {
  const std::size_t rounded = (bytes + 63) / 64 * 64 + 64;
  auto* data = static_cast<std::byte*>(std::aligned_alloc(64, rounded));
  if (data == nullptr) throw std::bad_alloc();
  if (zeroed) std::memset(data, 0, rounded);
  return {data, std::free};
}

}  // namespace

std::string_view to_string(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].name; }

std::optional<Dtype> dtype_from(std::string_view name) {
  for (const auto& row : kDtypes)
    if (name == row.name || name == row.brief) return row.dtype;
  if (name == "fp32" || name == "float") return Dtype::f32;
  if (name == "fp64" || name == "double") return Dtype::f64;
  if (name == "fp16" || name == "half") return Dtype::f16;
  return std::nullopt;
}

std::size_t size_of(Dtype dtype) { return kDtypes[static_cast<std::size_t>(dtype)].size; }

bool is_float(Dtype dtype) {
  return dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::f16 || dtype == Dtype::bf16;
}
bool is_complex(Dtype dtype) { return dtype == Dtype::c64 || dtype == Dtype::c128; }
bool is_integer(Dtype dtype) { return dtype >= Dtype::i8 && dtype <= Dtype::u64; }

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

std::optional<std::size_t> element_count(const Shape& shape) {
  // 16 is the largest element; the product must also be addressable in bytes.
  constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max() / 16;
  std::size_t count = 1;
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) {
      empty = true;
      continue;
    }
    if (static_cast<std::size_t>(dim) > kMost / count) return std::nullopt;
    count *= static_cast<std::size_t>(dim);
  }
  return empty ? 0 : count;
}

Tensor Tensor::zeros(Dtype dtype, Shape shape) {
  const std::size_t count = element_count(shape).value();
  auto memory = allocate(count * size_of(dtype), true);
  return view(dtype, std::move(shape), memory.get(), memory);
}

Tensor Tensor::uninitialised(Dtype dtype, Shape shape) {
  const std::size_t count = element_count(shape).value();
  auto memory = allocate(count * size_of(dtype), false);
  return view(dtype, std::move(shape), memory.get(), memory);
}

Tensor Tensor::view(Dtype dtype, Shape shape, std::byte* data, std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.dtype_ = dtype;
  tensor.count_ = element_count(shape).value();
  tensor.shape_ = std::move(shape);
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::clone() const {
  Tensor copy = uninitialised(dtype_, shape_);
  if (count_ > 0) std::memcpy(copy.data_, data_, bytes().size());
  return copy;
}

Tensor Tensor::reshaped(Shape shape) const { return view(dtype_, std::move(shape), data_, owner_); }

const Tensor* find(const Tensors& tensors, std::string_view name) {
  for (const auto& entry : tensors)
    if (entry.name == name) return &entry.tensor;
  return nullptr;
}

std::uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

std::uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | 0x7E00);
  if (magnitude >= 65520.0F) return static_cast<std::uint16_t>(sign | 0x7C00);
  if (magnitude < 0x1p-14F) {  // subnormal: the addition rounds to a multiple of 2^-24, to nearest even
    const float shifted = magnitude + 0.5F;
    return static_cast<std::uint16_t>(sign |
                                      (std::bit_cast<std::uint32_t>(shifted) - std::bit_cast<std::uint32_t>(0.5F)));
  }
  const std::uint32_t rounded = std::bit_cast<std::uint32_t>(magnitude) + 0xFFF + ((bits >> 13) & 1);
  return static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112 << 10)));
}

namespace {

template <class Read, class Write>
void convert_elements(std::size_t count, Read read, Write write) {
  for (std::size_t i = 0; i < count; ++i) write(i, read(i));
}

template <class Write>
void convert_from(const Tensor& tensor, Write write) {
  const std::size_t n = tensor.count();
  switch (tensor.dtype()) {
    case Dtype::f64:
      return convert_elements(
          n, [s = tensor.as<double>()](std::size_t i) { return s[i]; }, write);
    case Dtype::f16:
      return convert_elements(
          n, [s = tensor.as<std::uint16_t>()](std::size_t i) { return half_to_float(s[i]); }, write);
    case Dtype::bf16:
      return convert_elements(
          n, [s = tensor.as<std::uint16_t>()](std::size_t i) { return bfloat16_to_float(s[i]); }, write);
    default:
      return convert_elements(
          n, [s = tensor.as<float>()](std::size_t i) { return s[i]; }, write);
  }
}

}  // namespace

Tensor converted(const Tensor& tensor, Dtype to) {
  if (tensor.dtype() == to) return tensor;
  Tensor out = Tensor::uninitialised(to, tensor.shape());
  switch (to) {
    case Dtype::f64:
      convert_from(tensor, [s = out.as_mutable<double>()](std::size_t i, auto v) { s[i] = static_cast<double>(v); });
      break;
    case Dtype::f16:
      convert_from(tensor, [s = out.as_mutable<std::uint16_t>()](std::size_t i, auto v) {
        s[i] = float_to_half(static_cast<float>(v));
      });
      break;
    case Dtype::bf16:
      convert_from(tensor, [s = out.as_mutable<std::uint16_t>()](std::size_t i, auto v) {
        s[i] = float_to_bfloat16(static_cast<float>(v));
      });
      break;
    default:
      convert_from(tensor, [s = out.as_mutable<float>()](std::size_t i, auto v) { s[i] = static_cast<float>(v); });
  }
  return out;
}

}  // namespace portwright
