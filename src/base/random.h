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

// Filled from Philox4x32-10 (J. K. Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): every element
// has 64 random bits of its own, which depend on (seed, case, name, row-major index) alone. So a longer first axis
// keeps the rows it had, and float16 and bfloat16 arrays are the float32 array, rounded. Integers are drawn as
// integers.
//   normal: the quantile function on a 52-bit uniform, in arithmetic that gives the same bits on every machine;
//   uniform(lo,hi): from lo to hi (rounding to the dtype may reach them); tokens(lo,hi): lo, ..., hi - 1;
//   mask: all true/1 except the last quarter of the last axis (at least one stays), as padding is;
//   arange: 0, 1, 2, ... along the last axis.
// Complex numbers: both parts are drawn, one after the other; a constant is real.
// Errors (Fault::usage): bad_values, when the kind does not fit the dtype, or the shape is impossible or too large.
Result<Tensor> generate(Dtype dtype, const Shape& shape, const Values& values, std::uint64_t seed,
                        std::uint64_t case_index, std::string_view name);

}  // namespace portwright
