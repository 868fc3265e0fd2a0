#include "portwright/tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace portwright {
namespace {

// The definition: sign, exponent biased by 15, ten bits of mantissa.
double half_by_definition(unsigned bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1, mantissa = bits & 0x3FF;
  const int exponent = static_cast<int>(bits >> 10 & 31);
  if (exponent == 31) return mantissa == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

TEST(Half, AllValuesWidenAndComeBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = half_to_float(half);
    const double want = half_by_definition(bits);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
      ASSERT_TRUE(std::isnan(half_to_float(float_to_half(wide)))) << bits;
    } else {
      ASSERT_EQ(wide, want) << bits;
      ASSERT_EQ(std::signbit(wide), std::signbit(want)) << bits;
      ASSERT_EQ(float_to_half(wide), half) << bits;
    }
  }
}

// Between neighbours: below the middle down, above it up, and the middle itself to the even one.
TEST(Half, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
    const auto below = half_to_float(static_cast<std::uint16_t>(bits)),
               above = half_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = (below + above) / 2;  // exact in float
    ASSERT_EQ(float_to_half(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, below)), bits) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, above)), bits + 1) << bits;
  }
  EXPECT_EQ(float_to_half(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_half(-1e30F), 0xFC00);
}

TEST(Bfloat16, RoundsToNearestEven) {
  for (unsigned bits = 0; bits < 0x7F7F; ++bits) {
    const auto below = bfloat16_to_float(static_cast<std::uint16_t>(bits));
    const auto middle = std::bit_cast<float>(std::bit_cast<std::uint32_t>(below) + 0x8000);
    ASSERT_EQ(float_to_bfloat16(below), bits);
    ASSERT_EQ(float_to_bfloat16(middle), bits + (bits & 1)) << bits;
    ASSERT_EQ(float_to_bfloat16(std::nextafter(middle, INFINITY)), bits + 1) << bits;
  }
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(Shape, CountsElementsAndRefusesOverflow) {
  EXPECT_EQ(element_count({}), 1U);
  EXPECT_EQ(element_count({2, 3, 4}), 24U);
  EXPECT_EQ(element_count({5, 0, 7}), 0U);
  EXPECT_FALSE(element_count({2, -1}));
  EXPECT_FALSE(element_count({1LL << 32, 1LL << 32}));
  EXPECT_FALSE(element_count({1LL << 32, 1LL << 32, 0})) << "the product without the zero must fit as well";
  EXPECT_FALSE(element_count({1LL << 60})) << "its bytes would not fit";
}

TEST(Dtype, NamesComeBack) {
  for (int i = 0; i <= static_cast<int>(Dtype::c128); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    EXPECT_EQ(dtype_from(to_string(dtype)), dtype);
  }
  EXPECT_EQ(dtype_from("fp16"), Dtype::f16);
  EXPECT_EQ(dtype_from("float"), Dtype::f32);
  EXPECT_FALSE(dtype_from("string"));
}

TEST(Tensor, CopiesShareAndClonesDoNot) {
  Tensor a = Tensor::zeros(Dtype::i32, {2, 2});
  Tensor shared = a, copy = a.clone();
  a.as_mutable<std::int32_t>()[3] = 7;
  EXPECT_EQ(shared.as<std::int32_t>()[3], 7);
  EXPECT_EQ(copy.as<std::int32_t>()[3], 0);
  EXPECT_EQ(a.reshaped({4}).as<std::int32_t>()[3], 7);
}

}  // namespace
}  // namespace portwright
