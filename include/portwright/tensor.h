// Tensors: a dtype, a shape and shared bytes. Copying a Tensor shares its bytes; clone() copies them.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace portwright {

// What ONNX and NumPy share, and bfloat16. Strings, fp8 and 4-bit types are not tensors that Portwright compares.
enum class Dtype : std::uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, c64, c128 };

// "float32", "float16", "bfloat16", "int64", "bool", ... as NumPy and PyTorch print them.
std::string_view to_string(Dtype dtype);
// Takes those names, and the short forms fp32, f32, fp16, f16, bf16, i64, ...
std::optional<Dtype> dtype_from(std::string_view name);
std::size_t size_of(Dtype dtype);  // bytes of one element
bool is_float(Dtype dtype);        // f16, bf16, f32, f64
bool is_complex(Dtype dtype);
bool is_integer(Dtype dtype);  // signed and unsigned, without boolean

using Shape = std::vector<std::int64_t>;    // row-major; {} is a scalar
std::string to_string(const Shape& shape);  // "[1, 3, 224, 224]"
// Product of the dimensions; nullopt when one is negative or the product (or its size in bytes) overflows.
std::optional<std::size_t> element_count(const Shape& shape);

class Tensor {
 public:
  Tensor() = default;  // an empty float32 tensor of shape {0}
  // Zeroed memory. The shape must have an element_count().
  static Tensor zeros(Dtype dtype, Shape shape);
  // Memory that is not written yet; for callers that fill all of it.
  static Tensor uninitialised(Dtype dtype, Shape shape);
  // A view of bytes that `owner` keeps alive (a mapping, shared memory, an engine's buffer).
  static Tensor view(Dtype dtype, Shape shape, std::byte* data, std::shared_ptr<const void> owner);

  Dtype dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  std::size_t count() const { return count_; }
  std::span<const std::byte> bytes() const { return {data_, count_ * size_of(dtype_)}; }
  std::span<std::byte> mutable_bytes() { return {data_, count_ * size_of(dtype_)}; }

  // Typed access; T must have the size of the dtype (float for f32, std::uint16_t for f16 and bf16).
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(data_), count_};
  }
  template <class T>
  std::span<T> as_mutable() {
    return {reinterpret_cast<T*>(data_), count_};
  }

  Tensor clone() const;
  // The same bytes under another shape of the same count.
  Tensor reshaped(Shape shape) const;

 private:
  Dtype dtype_ = Dtype::f32;
  Shape shape_{0};
  std::size_t count_ = 0;
  std::byte* data_ = nullptr;
  std::shared_ptr<const void> owner_;
};

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
// In the order of the model's inputs or outputs.
using Tensors = std::vector<NamedTensor>;
const Tensor* find(const Tensors& tensors, std::string_view name);

// float <-> half conversions, round to nearest even. Those to float are exact, and without branches, so that compilers
// vectorise loops over them.
inline float half_to_float(std::uint16_t bits) {
  const std::uint32_t moved = (bits & 0x7FFFU)
                              << 13;  // exponent and mantissa in float's place, the exponent still biased by 15
  const std::uint32_t exponent = moved & 0x0F800000;
  const std::uint32_t normal = moved + (112U << 23);
  const std::uint32_t special = moved | 0x7F800000;  // Inf and NaN
  const auto subnormal = std::bit_cast<std::uint32_t>(std::bit_cast<float>(moved + (113U << 23)) - 0x1p-14F);
  const std::uint32_t magnitude = exponent == 0x0F800000 ? special : exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(magnitude | (bits & 0x8000U) << 16);
}
inline float bfloat16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
std::uint16_t float_to_half(float value);
std::uint16_t float_to_bfloat16(float value);
// A tensor with another float dtype and the same values, rounded to nearest even. Float dtypes only.
Tensor converted(const Tensor& tensor, Dtype to);

}  // namespace portwright
