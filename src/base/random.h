// Input values that depend only on (seed, case, input name): the same arrays on every machine and in every order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

// How an input is filled. Text forms: normal | uniform(lo,hi) | tokens(lo,hi) | ones | zeros | const(v) | mask |
// arange.
struct Values {
  enum class Kind { normal, uniform, tokens, constant, mask, arange } kind = Kind::normal;
  double low = 0.0;   // uniform: low; tokens: first; constant: the value
  double high = 1.0;  // uniform: high; tokens: one past the last
};
Result<Values> parse_values(std::string_view text);
std::string to_string(const Values& values);

// What stands in for an input without declared values: normal for floats, tokens(0,2) for integers, mask for booleans.
Values default_values(Dtype dtype);

// Filled from Philox4x32-10 keyed by (seed, case, name) and counted by element. Integers are drawn as integers.
//   normal: Box-Muller on two 32-bit uniforms; mask: all true/1 except the last quarter of the last axis (at least one
//   stays), as padding is; arange: 0, 1, 2, ... along the last axis.
// Errors (Fault::usage): bad_values, when the kind does not fit the dtype.
Result<Tensor> generate(Dtype dtype, const Shape& shape, const Values& values, std::uint64_t seed,
                        std::uint64_t case_index, std::string_view name);

}  // namespace portwright
