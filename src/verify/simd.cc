#include "verify/simd.h"

// Of x86 the loops need the portable baseline, SSE4, AVX2 and AVX-512; what lies between would only cost build time.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "verify/simd.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace portwright {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Doubles = hn::CappedTag<double, kSimdStep>;

HWY_INLINE hn::Vec<Doubles> load_wide(Doubles d, const double* from) { return hn::LoadU(d, from); }
HWY_INLINE hn::Vec<Doubles> load_wide(Doubles d, const float* from) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Doubles>(), from));
}

// The difference of two floats is taken in double: exact but for widely different magnitudes, as in the careful loop.
template <class T>
HWY_INLINE BlockSums sums(const T* HWY_RESTRICT a, const T* HWY_RESTRICT r, std::size_t n, double rtol, double atol,
                          double first) {
  const Doubles d;
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0);
  const auto rtols = hn::Set(d, rtol), atols = hn::Set(d, atol), firsts = hn::Set(d, first);
  auto abs = zero, dd = zero, aa = zero, rr = zero, ar = zero, max_abs = zero, max_rel = zero, outside = zero,
       varied = zero;
  for (std::size_t i = 0; i < n; i += hn::Lanes(d)) {
    const auto x = load_wide(d, a + i), y = load_wide(d, r + i);
    const auto difference = hn::Abs(hn::Sub(x, y)), magnitude = hn::Abs(y);
    abs = hn::Add(abs, difference);
    dd = hn::MulAdd(difference, difference, dd);
    aa = hn::MulAdd(x, x, aa);
    rr = hn::MulAdd(y, y, rr);
    ar = hn::MulAdd(x, y, ar);
    max_abs = hn::Max(max_abs, difference);
    max_rel = hn::Max(max_rel, hn::IfThenElseZero(hn::Ne(y, zero), hn::Div(difference, magnitude)));
    // Not fused, so that every processor draws the line at the same place.
    const auto allowed = hn::Add(atols, hn::Mul(rtols, magnitude));
    outside = hn::Add(outside, hn::IfThenElseZero(hn::Gt(difference, allowed), one));
    varied = hn::Or(varied, hn::IfThenElseZero(hn::Ne(x, firsts), one));
  }
  const auto total = [d](auto v) { return hn::GetLane(hn::SumOfLanes(d, v)); };
  const auto largest = [d](auto v) { return hn::GetLane(hn::MaxOfLanes(d, v)); };
  return {.abs = total(abs),
          .dd = total(dd),
          .aa = total(aa),
          .rr = total(rr),
          .ar = total(ar),
          .max_abs = largest(max_abs),
          .max_rel = largest(max_rel),
          .outside = static_cast<std::uint64_t>(total(outside)),
          .varied = largest(varied) != 0};
}

// Finds the maximum, then the first element that equals it.
template <class T>
HWY_INLINE std::size_t largest_at(const T* HWY_RESTRICT values, std::size_t n) {
  const hn::ScalableTag<T> d;
  const std::size_t lanes = hn::Lanes(d), whole = n - n % lanes;
  T most = values[0];
  if (whole > 0) {
    auto top = hn::LoadU(d, values);
    for (std::size_t i = lanes; i < whole; i += lanes) top = hn::Max(top, hn::LoadU(d, values + i));
    most = hn::GetLane(hn::MaxOfLanes(d, top));
  }
  for (std::size_t i = whole; i < n; ++i) most = values[i] > most ? values[i] : most;
  const auto wanted = hn::Set(d, most);
  for (std::size_t i = 0; i < whole; i += lanes) {
    const auto at = hn::FindFirstTrue(d, hn::Eq(hn::LoadU(d, values + i), wanted));
    if (at >= 0) return i + static_cast<std::size_t>(at);
  }
  std::size_t i = whole;
  while (values[i] != most) ++i;
  return i;
}

BlockSums sums_f32(const float* a, const float* r, std::size_t n, double rtol, double atol, double first) {
  return sums(a, r, n, rtol, atol, first);
}
BlockSums sums_f64(const double* a, const double* r, std::size_t n, double rtol, double atol, double first) {
  return sums(a, r, n, rtol, atol, first);
}
std::size_t largest_f32(const float* values, std::size_t n) { return largest_at(values, n); }
std::size_t largest_f64(const double* values, std::size_t n) { return largest_at(values, n); }

}  // namespace HWY_NAMESPACE
}  // namespace portwright
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace portwright {

HWY_EXPORT(sums_f32);
HWY_EXPORT(sums_f64);
HWY_EXPORT(largest_f32);
HWY_EXPORT(largest_f64);

BlockSums block_sums(const float* a, const float* r, std::size_t n, double rtol, double atol, double first) {
  return HWY_DYNAMIC_DISPATCH(sums_f32)(a, r, n, rtol, atol, first);
}
BlockSums block_sums(const double* a, const double* r, std::size_t n, double rtol, double atol, double first) {
  return HWY_DYNAMIC_DISPATCH(sums_f64)(a, r, n, rtol, atol, first);
}
std::size_t first_largest(const float* values, std::size_t n) { return HWY_DYNAMIC_DISPATCH(largest_f32)(values, n); }
std::size_t first_largest(const double* values, std::size_t n) { return HWY_DYNAMIC_DISPATCH(largest_f64)(values, n); }

}  // namespace portwright
#endif  // HWY_ONCE
