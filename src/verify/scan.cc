#include "verify/scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "verify/simd.h"
#include "verify/top1.h"

namespace portwright {
namespace {

// Blocks fit into the innermost cache, so what is done to one after another costs no memory traffic. Chunks are what
// threads take; both are of fixed size, and chunks are added up in order, so the sums do not depend on the threads.
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kChunk = 64 * kBlock;

// ---------------------------------------------------------------------------------------------- elements and numbers

// Raw elements whose meaning C++ does not know.
struct Half {
  std::uint16_t bits;
  explicit operator float() const { return half_to_float(bits); }
};
struct Bfloat {
  std::uint16_t bits;
  explicit operator float() const { return bfloat16_to_float(bits); }
};
struct Bool {
  std::uint8_t byte;
  explicit operator float() const { return byte != 0 ? 1.0F : 0.0F; }
};

// A dtype: its elements in memory, and the number type in which they are compared, which holds each of them exactly.
template <class RawType, class NumberType>
struct Elements {
  using Raw = RawType;
  using Number = NumberType;

  // Elements may lie at any address: tensors that are views of a file need not be aligned.
  static Number at(const Tensor& tensor, std::size_t i) {
    Raw raw;
    std::memcpy(&raw, tensor.bytes().data() + i * sizeof(Raw), sizeof(Raw));
    return static_cast<Number>(raw);
  }
  // n elements as numbers: where they lie, if that will do, else in `scratch`.
  static const Number* block(const Tensor& tensor, std::size_t first, std::size_t n, Number* scratch) {
    const std::byte* from = tensor.bytes().data() + first * sizeof(Raw);
    if constexpr (std::is_same_v<Raw, Number>) {
      if (reinterpret_cast<std::uintptr_t>(from) % alignof(Raw) == 0) return reinterpret_cast<const Number*>(from);
      std::memcpy(scratch, from, n * sizeof(Raw));
    } else {
      for (std::size_t i = 0; i < n; ++i) scratch[i] = at(tensor, first + i);
    }
    return scratch;
  }
};

template <class Function>
auto with_elements(Dtype dtype, const Function& function) {
  switch (dtype) {
    case Dtype::f32:
      return function(Elements<float, float>());
    case Dtype::f64:
      return function(Elements<double, double>());
    case Dtype::f16:
      return function(Elements<Half, float>());
    case Dtype::bf16:
      return function(Elements<Bfloat, float>());
    case Dtype::i8:
      return function(Elements<std::int8_t, float>());
    case Dtype::i16:
      return function(Elements<std::int16_t, float>());
    case Dtype::i32:
      return function(Elements<std::int32_t, double>());
    case Dtype::i64:
      return function(Elements<std::int64_t, std::int64_t>());
    case Dtype::u8:
      return function(Elements<std::uint8_t, float>());
    case Dtype::u16:
      return function(Elements<std::uint16_t, float>());
    case Dtype::u32:
      return function(Elements<std::uint32_t, double>());
    case Dtype::u64:
      return function(Elements<std::uint64_t, std::uint64_t>());
    case Dtype::boolean:
      return function(Elements<Bool, float>());
    case Dtype::c64:
      return function(Elements<std::complex<float>, std::complex<float>>());
    case Dtype::c128:
      break;
  }
  return function(Elements<std::complex<double>, std::complex<double>>());
}

template <class T>
bool is_finite(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::isfinite(x);
  return true;
}
template <class T>
bool is_finite(std::complex<T> z) {
  return std::isfinite(z.real()) && std::isfinite(z.imag());
}

// Equal, or both NaN.
template <class T>
bool is_same(T x, T y) {
  if constexpr (std::is_floating_point_v<T>) return x == y || (std::isnan(x) && std::isnan(y));
  return x == y;
}
template <class T>
bool is_same(std::complex<T> x, std::complex<T> y) {
  return is_same(x.real(), y.real()) && is_same(x.imag(), y.imag());
}

template <class T>
double magnitude(T x) {
  return std::fabs(static_cast<double>(x));
}
template <class T>
double magnitude(std::complex<T> z) {
  return std::abs(std::complex<double>(z));
}

// |a - r| in double. 64-bit integers are subtracted in long double, which holds them exactly.
template <class T>
double difference(T a, T r) {
  using Exact = std::conditional_t<std::is_integral_v<T>, long double, double>;
  return static_cast<double>(std::abs(static_cast<Exact>(a) - static_cast<Exact>(r)));
}
template <class T>
double difference(std::complex<T> a, std::complex<T> r) {
  return std::abs(std::complex<double>(a) - std::complex<double>(r));
}

// The real part of a times the conjugate of r: complex numbers as vectors of their parts.
template <class Wide, class T>
Wide product(T a, T r) {
  return static_cast<Wide>(a) * static_cast<Wide>(r);
}
template <class Wide, class T>
Wide product(std::complex<T> a, std::complex<T> r) {
  return product<Wide>(a.real(), r.real()) + product<Wide>(a.imag(), r.imag());
}

// ------------------------------------------------------------------------------------------------------------ sums

// A new maximum must be strictly larger, so the first of equals stays.
void note_largest(Sums& sums, double max_abs, std::optional<std::size_t> at) {
  if (!(max_abs > sums.max_abs)) return;
  sums.max_abs = max_abs;
  sums.worst = at;
}

void add(Sums& sums, const Sums& next) {
  sums.abs += next.abs;
  sums.dd += next.dd;
  sums.aa += next.aa;
  sums.rr += next.rr;
  sums.ar += next.ar;
  sums.finite += next.finite;
  sums.max_rel = std::max(sums.max_rel, next.max_rel);
  sums.outside += next.outside;
  sums.nonfinite_actual += next.nonfinite_actual;
  sums.nonfinite_reference += next.nonfinite_reference;
  sums.varied = sums.varied || next.varied;
  if (!sums.disagreement) sums.disagreement = next.disagreement;
  note_largest(sums, next.max_abs, next.worst);
}

// Every case, one element at a time. `base` is the index of the first element.
template <class T>
Sums careful_sums(const T* a, const T* r, std::size_t n, std::size_t base, const Tolerance& tolerance, T first) {
  using Wide = std::conditional_t<std::is_same_v<T, float>, double, long double>;
  Wide abs = 0, dd = 0, aa = 0, rr = 0, ar = 0;
  Sums sums;
  for (std::size_t i = 0; i < n; ++i) {
    const T x = a[i], y = r[i];
    sums.varied = sums.varied || !is_same(x, first);
    const bool x_finite = is_finite(x), y_finite = is_finite(y);
    if (!x_finite || !y_finite) {
      sums.nonfinite_actual += x_finite ? 0 : 1;
      sums.nonfinite_reference += y_finite ? 0 : 1;
      if (is_same(x, y)) continue;
      ++sums.outside;
      if (!sums.disagreement) sums.disagreement = base + i;
      continue;
    }
    ++sums.finite;
    const double d = difference(x, y), size = magnitude(y);
    abs += d;
    dd += static_cast<Wide>(d) * static_cast<Wide>(d);
    aa += product<Wide>(x, x);
    rr += product<Wide>(y, y);
    ar += product<Wide>(x, y);
    note_largest(sums, d, base + i);
    if (size != 0) sums.max_rel = std::max(sums.max_rel, d / size);
    if (d > tolerance.atol + tolerance.rtol * size) ++sums.outside;
  }
  sums.abs = abs;
  sums.dd = dd;
  sums.aa = aa;
  sums.rr = rr;
  sums.ar = ar;
  return sums;
}

// Whether the fast loop's sums can be believed: nothing was NaN or Inf, and no square of a double over- or underflowed.
// Squares of float32 cannot, in double.
bool believable(const BlockSums& sums, float) { return std::isfinite(sums.aa + sums.rr); }
bool believable(const BlockSums& sums, double) {
  const auto safe = [](double square) { return square > 1e-250 && square < 1e250; };
  return safe(sums.aa) && safe(sums.rr) && (sums.max_abs == 0 || safe(sums.dd));
}

// The same as careful_sums, but `worst` only names the block. Nothing when the block is not for it.
template <class T>
std::optional<Sums> fast_sums(const T* a, const T* r, std::size_t n, std::size_t base, const Tolerance& tolerance,
                              T first) {
  if constexpr (std::is_floating_point_v<T>) {
    if (n == 0) return std::nullopt;
    const BlockSums block = block_sums(a, r, n, tolerance.rtol, tolerance.atol, first);
    if (!believable(block, T())) return std::nullopt;
    Sums sums;
    sums.abs = block.abs;
    sums.dd = block.dd;
    sums.aa = block.aa;
    sums.rr = block.rr;
    sums.ar = block.ar;
    sums.finite = n;
    sums.max_abs = block.max_abs;
    sums.max_rel = block.max_rel;
    sums.outside = block.outside;
    sums.varied = block.varied;
    sums.worst = base;
    return sums;
  }
  return std::nullopt;
}

// ------------------------------------------------------------------------------------------------------------ top-1

template <class T>
Peak peak_of(const T* values, std::size_t n, std::size_t index, bool finite) {
  constexpr std::size_t kWorthACall = 16;
  Peak peak;
  if (finite && n >= kWorthACall) {
    const std::size_t at = first_largest(values, n);
    peak.add(values[at], index + at);
  } else {
    for (std::size_t i = 0; i < n; ++i) peak.add(values[i], index + i);
  }
  return peak;
}

template <class T>
void add_rows(RowAgreement& rows, const T* a, const T* r, std::size_t n, std::size_t base, std::size_t columns,
              bool finite) {
  std::size_t column = base % columns;
  for (std::size_t i = 0; i < n;) {
    const std::size_t length = std::min(n - i, columns - column);
    rows.add({peak_of(a + i, length, column, finite), peak_of(r + i, length, column, finite)},
             column + length == columns);
    i += length;
    column = 0;
  }
}

// ------------------------------------------------------------------------------------------------------------- chunks

struct Job {
  const Tensor& actual;
  const Tensor& reference;
  const Tolerance& tolerance;
  std::size_t columns;  // of the rows whose largest elements are compared; 0: none are
};

struct Part {
  Sums sums;
  RowAgreement rows;
};

template <class E>
void scan_block(const Job& job, const typename E::Number* a, const typename E::Number* r, std::size_t n,
                std::size_t base, typename E::Number first, Part& part) {
  const std::size_t even = n - n % kSimdStep;
  const auto fast = fast_sums(a, r, even, base, job.tolerance, first);
  const std::size_t done = fast ? even : 0;
  if (fast) add(part.sums, *fast);
  const Sums rest = careful_sums(a + done, r + done, n - done, base + done, job.tolerance, first);
  add(part.sums, rest);
  if constexpr (std::is_floating_point_v<typename E::Number>) {
    const bool finite = fast && rest.finite == n - done;
    if (job.columns > 0) add_rows(part.rows, a, r, n, base, job.columns, finite);
  }
}

template <class E>
Part scan_chunk(const Job& job, std::size_t begin, std::size_t end) {
  using Number = typename E::Number;
  std::array<Number, kBlock> actual_scratch, reference_scratch;
  const Number first = E::at(job.actual, 0);
  Part part;
  for (std::size_t base = begin; base < end; base += kBlock) {
    const std::size_t n = std::min(kBlock, end - base);
    const Number* a = E::block(job.actual, base, n, actual_scratch.data());
    const Number* r = E::block(job.reference, base, n, reference_scratch.data());
    scan_block<E>(job, a, r, n, base, first, part);
  }
  return part;
}

// From the block that has the largest difference to the first element that has it.
template <class E>
std::size_t first_worst(const Job& job, std::size_t from, double max_abs) {
  const auto is_worst = [&](std::size_t i) {
    return difference(E::at(job.actual, i), E::at(job.reference, i)) == max_abs;
  };
  const std::size_t last = std::min(from + kBlock, job.actual.count()) - 1;
  while (from < last && !is_worst(from)) ++from;
  return from;
}

}  // namespace

Scan scan(const Tensor& actual, const Tensor& reference, const Tolerance& tolerance, int threads) {
  const std::size_t count = actual.count();
  if (count == 0) return {};
  const bool has_rows = is_float(actual.dtype()) && actual.shape().size() == 2;
  const Job job{actual, reference, tolerance, has_rows ? static_cast<std::size_t>(actual.shape()[1]) : 0};
  std::vector<Part> parts((count + kChunk - 1) / kChunk);
  return with_elements(actual.dtype(), [&]<class E>(E) {
    in_parallel(parts.size(), threads,
                [&](std::size_t i) { parts[i] = scan_chunk<E>(job, i * kChunk, std::min(count, (i + 1) * kChunk)); });
    Part whole;
    for (const Part& part : parts) {
      add(whole.sums, part.sums);
      whole.rows.append(part.rows);
    }
    Sums& sums = whole.sums;
    if (sums.disagreement)
      sums.worst = sums.disagreement;
    else if (sums.worst)
      sums.worst = first_worst<E>(job, *sums.worst, sums.max_abs);
    return Scan{sums, has_rows ? std::optional(whole.rows.agreeing()) : std::nullopt};
  });
}

double element(const Tensor& tensor, std::size_t index) {
  return with_elements(tensor.dtype(), [&]<class E>(E) {
    const auto value = E::at(tensor, index);
    if constexpr (std::is_arithmetic_v<typename E::Number>)
      return static_cast<double>(value);
    else
      return magnitude(value);
  });
}

}  // namespace portwright
