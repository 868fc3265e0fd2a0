// The inner loops of compare, compiled for several instruction sets; the best that the processor has is used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace portwright {

// What one block of element pairs adds up to, in double whatever the elements are.
struct BlockSums {
  double abs = 0;  // of |a - r|
  double dd = 0;   // of (a - r)^2
  double aa = 0, rr = 0, ar = 0;
  double max_abs = 0;         // largest |a - r|
  double max_rel = 0;         // largest |a - r| / |r| where r != 0
  std::uint64_t outside = 0;  // |a - r| > atol + rtol |r|
  bool varied = false;        // some a is not `first`
};

// How many elements the loops take at a time: their n must be a multiple of it.
inline constexpr std::size_t kSimdStep = 16;

// Meaningless when an element is NaN or Inf; aa + rr then is not finite, which is how the caller knows.
BlockSums block_sums(const float* a, const float* r, std::size_t n, double rtol, double atol, double first);
BlockSums block_sums(const double* a, const double* r, std::size_t n, double rtol, double atol, double first);

// Index of the first of the largest elements, none of which is NaN; any n > 0.
std::size_t first_largest(const float* values, std::size_t n);
std::size_t first_largest(const double* values, std::size_t n);

}  // namespace portwright
