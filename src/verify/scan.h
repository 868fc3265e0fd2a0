// One pass over two tensors of the same shape and dtype: everything that compare needs to know about their elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "portwright/tensor.h"

namespace portwright {

struct Tolerance {
  double rtol = 0, atol = 0;
};

// Sums are kept in long double so that the squares of the largest double do not overflow.
struct Sums {
  long double abs = 0, dd = 0, aa = 0, rr = 0, ar = 0;  // of |a - r|, |a - r|^2, |a|^2, |r|^2, a r
  std::uint64_t finite = 0;  // elements that are finite on both sides; the sums and maxima are over these
  double max_abs = -1;       // negative when there is no such element
  double max_rel = 0;
  std::uint64_t outside = 0;  // out of tolerance, disagreements of NaN and Inf included
  std::uint64_t nonfinite_actual = 0, nonfinite_reference = 0;
  bool varied = false;  // the elements of `actual` are not all equal
  // The first element with a NaN or Inf that the other side has not; else the first that has max_abs.
  std::optional<std::size_t> disagreement, worst;
};

struct Scan {
  Sums sums;
  std::optional<std::uint64_t> rows_agreeing;  // 2-D floats: rows whose largest element is at the same place
};

// `threads` 0: all cores, for tensors that are worth it. The result does not depend on it.
Scan scan(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance, int threads);

// One element as a number: the modulus of a complex one.
double element(const Tensor& tensor, std::size_t index);

}  // namespace portwright
