#include "base/random.h"

#include <Random123/philox.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"

// This file is compiled with -ffp-contract=off and uses nothing of floating point but + - * / and sqrt, which IEEE 754
// rounds correctly: no libm, no fused operations. So its values are the same to the bit on every machine.

namespace portwright {
namespace {

constexpr double kExactIntegers = 0x1p53;  // up to here a double holds every integer

tl::unexpected<Error> bad_values(std::string message, std::string where, std::string hint) {
  return fail({Fault::usage, "inputs", "bad_values", std::move(message), std::move(where), std::move(hint), ""});
}

// --------------------------------------------------------------------------------------------------------- text forms

constexpr std::string_view kForms =
    "known are normal, uniform(lo,hi), tokens(lo,hi), ones, zeros, const(v), mask, arange";

struct Call {
  std::string_view name;
  std::vector<double> arguments;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::optional<double> number_in(std::string_view text) {
  text = trimmed(text);
  double value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// NAME or NAME(number, ...).
std::optional<Call> parse_call(std::string_view text) {
  text = trimmed(text);
  const std::size_t open = text.find('(');
  Call call{text.substr(0, open), {}};
  if (open == std::string_view::npos) return call;
  if (text.back() != ')') return std::nullopt;
  std::string_view rest = text.substr(open + 1, text.size() - open - 2);
  for (;;) {
    const std::size_t comma = rest.find(',');
    const auto value = number_in(rest.substr(0, comma));
    if (!value) return std::nullopt;
    call.arguments.push_back(*value);
    if (comma == std::string_view::npos) return call;
    rest.remove_prefix(comma + 1);
  }
}

struct Form {
  std::string_view name;
  std::size_t arguments;
  Values values;  // with the arguments' places at their defaults
};
constexpr std::array<Form, 8> kKnownForms{{
    {"normal", 0, {Values::Kind::normal}},
    {"uniform", 2, {Values::Kind::uniform}},
    {"tokens", 2, {Values::Kind::tokens}},
    {"ones", 0, {Values::Kind::constant, 1.0}},
    {"zeros", 0, {Values::Kind::constant, 0.0}},
    {"const", 1, {Values::Kind::constant}},
    {"mask", 0, {Values::Kind::mask}},
    {"arange", 0, {Values::Kind::arange}},
}};

// What is wrong with the bounds, or nothing.
std::string_view wrong_bounds(const Values& v) {
  if (v.kind != Values::Kind::uniform && v.kind != Values::Kind::tokens) return "";
  if (!std::isfinite(v.low) || !std::isfinite(v.high) || !std::isfinite(v.high - v.low))
    return "the bounds must be finite";
  if (v.low >= v.high) return "the first bound must be less than the second";
  if (v.kind == Values::Kind::uniform) return "";
  if (std::trunc(v.low) != v.low || std::trunc(v.high) != v.high) return "tokens are integers, so the bounds must be";
  if (std::fabs(v.low) > kExactIntegers || std::fabs(v.high) > kExactIntegers) return "the bounds must not exceed 2^53";
  return "";
}

// ------------------------------------------------------------------------------------------------------- random draws

// The 64 random bits of every element of one input. Philox's key is the seed; of its four counter words two count
// pairs of elements and two are the digest of (name, case).
class Stream {
 public:
  Stream(std::uint64_t seed, std::uint64_t case_index, std::string_view name)
      : seed_(seed), id_(digest(name, case_index)) {}

  // Bits of the elements first, first + 1, ...; `first` is even.
  void draw(std::size_t first, std::span<std::uint64_t> out) const {
    const r123::Philox4x32::key_type key{{low(seed_), high(seed_)}};
    r123::Philox4x32 philox;
    for (std::size_t i = 0; i < out.size(); i += 2) {
      const std::uint64_t pair = (first + i) / 2;
      const auto words = philox({{low(pair), high(pair), low(id_), high(id_)}}, key);
      out[i] = words[0] | std::uint64_t{words[1]} << 32;
      if (i + 1 < out.size()) out[i + 1] = words[2] | std::uint64_t{words[3]} << 32;
    }
  }

 private:
  static std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
  static std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
  // FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/. The case has a fixed length, so no two pairs share their bytes.
  static std::uint64_t digest(std::string_view name, std::uint64_t case_index) {
    std::uint64_t hash = 0xcbf29ce484222325;
    const auto add = [&](std::uint64_t byte) { hash = (hash ^ byte) * 0x100000001b3; };
    for (const char c : name) add(static_cast<unsigned char>(c));
    for (int i = 0; i < 8; ++i) add(case_index >> (8 * i) & 0xFF);
    return hash;
  }

  std::uint64_t seed_, id_;
};

// (k + 1/2) / 2^52 with k from the upper 52 bits: strictly between 0 and 1. As the mantissa of a number in [1, 2),
// which is exact and needs no conversion from integer.
double unit(std::uint64_t bits) {
  return (std::bit_cast<double>(bits >> 12 | std::bit_cast<std::uint64_t>(1.0)) - 1) + 0x1p-53;
}

// An integer below `range`: the high half of bits * range.
std::uint64_t below(std::uint64_t range, std::uint64_t bits) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(bits) * range >> 64);
}

template <std::size_t N>
double polynomial(double x, const std::array<double, N>& coefficients) {
  double sum = coefficients[N - 1];
  for (std::size_t i = N - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

// Natural logarithm of a positive normal number: exponent times log 2, and 2 atanh((m-1)/(m+1)) as its power series.
double exact_log(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double mantissa = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFF) | 0x3FF0000000000000);  // [1, 2)
  if (mantissa > 1.4142135623730951) {
    mantissa *= 0.5;
    exponent += 1;
  }
  const double s = (mantissa - 1) / (mantissa + 1);
  static constexpr std::array<double, 12> kOdd{1.0,      1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                               1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21, 1.0 / 23};
  return exponent * 0.6931471805599453 + 2 * s * polynomial(s * s, kOdd);
}

// Quantile of the standard normal distribution, relative error 1e-16: algorithm AS 241 (PPND16) of M. J. Wichura,
// "The Percentage Points of the Normal Distribution", Applied Statistics 37 (1988), 477-484. One part for the middle
// |p - 1/2| <= 0.425 and two for the tails.
double normal_middle(double q) {
  static constexpr std::array<double, 8> kA{3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                            1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                            3.3430575583588128105e4, 2.5090809287301226727e3};
  static constexpr std::array<double, 8> kB{1.0,
                                            4.2313330701600911252e1,
                                            6.8718700749205790830e2,
                                            5.3941960214247511077e3,
                                            2.1213794301586595867e4,
                                            3.9307895800092710610e4,
                                            2.8729085735721942674e4,
                                            5.2264952788528545610e3};
  const double r = 0.180625 - q * q;
  return q * polynomial(r, kA) / polynomial(r, kB);
}

double normal_tail(double p) {  // 0 < p < 0.075, gives the negative of the quantile
  static constexpr std::array<double, 8> kC{
      1.42343711074968357734e0, 4.63033784615654529590e0,  5.76949722146069140550e0,  3.64784832476320460504e0,
      1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4};
  static constexpr std::array<double, 8> kD{1.0,
                                            2.05319162663775882187e0,
                                            1.67638483018380384940e0,
                                            6.89767334985100004550e-1,
                                            1.48103976427480074590e-1,
                                            1.51986665636164571966e-2,
                                            5.47593808499534494600e-4,
                                            1.05075007164441684324e-9};
  static constexpr std::array<double, 8> kE{
      6.65790464350110377720e0,  5.46378491116411436990e0,  1.78482653991729133580e0,  2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7};
  static constexpr std::array<double, 8> kF{1.0,
                                            5.99832206555887937690e-1,
                                            1.36929880922735805310e-1,
                                            1.48753612908506148525e-2,
                                            7.86869131145613259100e-4,
                                            1.84631831751005468180e-5,
                                            1.42151175831644588870e-7,
                                            2.04426310338993978564e-15};
  const double r = std::sqrt(-exact_log(p));
  return r <= 5 ? polynomial(r - 1.6, kC) / polynomial(r - 1.6, kD) : polynomial(r - 5, kE) / polynomial(r - 5, kF);
}

constexpr std::size_t kPiece = 1024;  // elements made at a time

// The middle for all, which the compiler vectorises; then the 15 % in the tails again, found without branches.
void normal_quantiles(std::span<const std::uint64_t> bits, std::span<double> out) {
  std::array<std::size_t, kPiece> tails;
  std::size_t found = 0;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = normal_middle(unit(bits[i]) - 0.5);
  for (std::size_t i = 0; i < out.size(); ++i) {
    tails[found] = i;
    const double p = unit(bits[i]);
    found += static_cast<std::size_t>(p < 0.075) + static_cast<std::size_t>(p > 0.925);
  }
  for (const std::size_t i : std::span(tails).first(found)) {
    const double p = unit(bits[i]);
    out[i] = p < 0.5 ? -normal_tail(p) : normal_tail(1 - p);
  }
}

// ------------------------------------------------------------------------------------------------------------ filling

// Values of the elements first, first + 1, ...; at most kPiece of them.
using Fill = std::function<void(std::size_t first, std::span<double> out)>;

Fill drawing(const Stream& stream, std::function<void(std::span<const std::uint64_t>, std::span<double>)> map) {
  return [stream, map = std::move(map)](std::size_t first, std::span<double> out) {
    std::array<std::uint64_t, kPiece> bits;
    const auto used = std::span(bits).first(out.size());
    stream.draw(first, used);
    map(used, out);
  };
}

// Values that depend on the place along the last axis alone.
Fill along_last_axis(const Shape& shape, std::function<double(std::size_t)> value) {
  const std::size_t length = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
  return [length, value = std::move(value)](std::size_t first, std::span<double> out) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = value((first + i) % length);
  };
}

Fill fill_for(const Values& values, const Shape& shape, const Stream& stream) {
  const double low = values.low, span = values.high - values.low;
  switch (values.kind) {
    case Values::Kind::normal:
      return drawing(stream, normal_quantiles);
    case Values::Kind::uniform:
      return drawing(stream, [=](auto bits, auto out) {
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = low + span * unit(bits[i]);
      });
    case Values::Kind::tokens:
      return drawing(stream, [=, first = static_cast<std::int64_t>(low), range = static_cast<std::uint64_t>(span)](
                                 auto bits, auto out) {
        for (std::size_t i = 0; i < out.size(); ++i)
          out[i] = static_cast<double>(first + static_cast<std::int64_t>(below(range, bits[i])));
      });
    case Values::Kind::constant:
      return [low](std::size_t, std::span<double> out) { std::ranges::fill(out, low); };
    case Values::Kind::mask: {
      const std::size_t length = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
      return along_last_axis(shape, [kept = length - length / 4](std::size_t i) { return i < kept ? 1.0 : 0.0; });
    }
    case Values::Kind::arange:
      return along_last_axis(shape, [](std::size_t i) { return static_cast<double>(i); });
  }
  return {};
}

template <class T, class Convert>
void fill_as(std::span<T> out, const Fill& fill, Convert convert) {
  constexpr std::size_t kShare = 256 * kPiece;  // elements worth a thread
  in_parallel((out.size() + kShare - 1) / kShare, 0, [&](std::size_t share) {
    std::array<double, kPiece> values;
    const std::size_t end = std::min(out.size(), (share + 1) * kShare);
    for (std::size_t first = share * kShare; first < end; first += kPiece) {
      const auto piece = out.subspan(first, std::min(kPiece, end - first));
      fill(first, std::span(values).first(piece.size()));
      for (std::size_t i = 0; i < piece.size(); ++i) piece[i] = convert(values[i]);
    }
  });
}

template <class T>
void fill_cast(Tensor& tensor, const Fill& fill) {
  fill_as(tensor.as_mutable<T>(), fill, [](double v) { return static_cast<T>(v); });
}

// Both parts of complex numbers, one after the other. A constant has no imaginary part.
template <class T>
void fill_complex(Tensor& tensor, const Fill& fill, bool constant) {
  const std::span<T> parts(reinterpret_cast<T*>(tensor.mutable_bytes().data()), 2 * tensor.count());
  fill_as(parts, fill, [](double v) { return static_cast<T>(v); });
  if (constant)
    for (std::size_t i = 1; i < parts.size(); i += 2) parts[i] = 0;
}

void fill_tensor(Tensor& tensor, const Fill& fill, bool constant) {
  const auto narrow = [&](std::uint16_t (*round)(float)) {  // through float32: the same values as float32, rounded
    fill_as(tensor.as_mutable<std::uint16_t>(), fill, [round](double v) { return round(static_cast<float>(v)); });
  };
  switch (tensor.dtype()) {
    case Dtype::f32:
      return fill_cast<float>(tensor, fill);
    case Dtype::f64:
      return fill_cast<double>(tensor, fill);
    case Dtype::f16:
      return narrow(float_to_half);
    case Dtype::bf16:
      return narrow(float_to_bfloat16);
    case Dtype::i8:
      return fill_cast<std::int8_t>(tensor, fill);
    case Dtype::i16:
      return fill_cast<std::int16_t>(tensor, fill);
    case Dtype::i32:
      return fill_cast<std::int32_t>(tensor, fill);
    case Dtype::i64:
      return fill_cast<std::int64_t>(tensor, fill);
    case Dtype::u8:
    case Dtype::boolean:
      return fill_cast<std::uint8_t>(tensor, fill);
    case Dtype::u16:
      return fill_cast<std::uint16_t>(tensor, fill);
    case Dtype::u32:
      return fill_cast<std::uint32_t>(tensor, fill);
    case Dtype::u64:
      return fill_cast<std::uint64_t>(tensor, fill);
    case Dtype::c64:
      return fill_complex<float>(tensor, fill, constant);
    case Dtype::c128:
      return fill_complex<double>(tensor, fill, constant);
  }
}

// ------------------------------------------------------------------------------------------------- what fits a dtype

// Integers from `first` to before `end`.
struct IntegerRange {
  double first, end;
};
std::optional<IntegerRange> integers_of(Dtype dtype) {
  if (dtype == Dtype::boolean) return IntegerRange{0, 2};
  if (!is_integer(dtype)) return std::nullopt;
  const double states = std::ldexp(1.0, static_cast<int>(8 * size_of(dtype)));
  return dtype >= Dtype::u8 ? IntegerRange{0, states} : IntegerRange{-states / 2, states / 2};
}

double largest(Dtype dtype) {
  if (dtype == Dtype::f16) return 65504;
  return dtype == Dtype::f64 || dtype == Dtype::c128 ? std::numeric_limits<double>::max()
                                                     : std::numeric_limits<float>::max();
}

Status check_integer_fit(const Values& values, const IntegerRange& range, const std::string& what, std::size_t length) {
  const auto refuse = [&](const std::string& reason, std::string hint) {
    return bad_values(what + ": " + reason, "", std::move(hint));
  };
  switch (values.kind) {
    case Values::Kind::normal:
    case Values::Kind::uniform:
      return refuse("these values are not integers", "use tokens(lo,hi)");
    case Values::Kind::tokens:
      if (values.low < range.first || values.high > range.end)
        return refuse("the bounds exceed the dtype", "use smaller bounds");
      return {};
    case Values::Kind::constant:
      if (std::trunc(values.low) != values.low || !(values.low >= range.first && values.low < range.end))
        return refuse("the dtype cannot hold this value", "use an integer within its range");
      return {};
    case Values::Kind::arange:
      if (static_cast<double>(length) > range.end)
        return refuse("the last axis is too long for the dtype", "use tokens(lo,hi)");
      return {};
    case Values::Kind::mask:
      return {};
  }
  return {};
}

Status check_float_fit(const Values& values, Dtype dtype, const std::string& what, std::size_t length) {
  const auto refuse = [&](const std::string& reason, std::string hint) {
    return bad_values(what + ": " + reason, "", std::move(hint));
  };
  const auto fits = [&](double v) { return !std::isfinite(v) || std::fabs(v) <= largest(dtype); };
  const std::string_view use = "use normal, uniform(lo,hi) or const(v)";
  switch (values.kind) {
    case Values::Kind::tokens:
      return refuse("tokens are integers", std::string(use));
    case Values::Kind::constant:
    case Values::Kind::uniform:
      if (!fits(values.low) || (values.kind == Values::Kind::uniform && !fits(values.high)))
        return refuse("the dtype cannot hold these values", "use smaller values");
      return {};
    case Values::Kind::mask:
    case Values::Kind::arange:
      if (is_complex(dtype)) return refuse("these values are not complex", std::string(use));
      if (!fits(static_cast<double>(length)))
        return refuse("the last axis is too long for the dtype", std::string(use));
      return {};
    case Values::Kind::normal:
      return {};
  }
  return {};
}

Status check_fit(const Values& values, Dtype dtype, const Shape& shape) {
  const std::string what = to_string(values) + " for " + std::string(to_string(dtype));
  if (const auto wrong = wrong_bounds(values); !wrong.empty())
    return bad_values(what + ": " + std::string(wrong), "", "");
  const std::size_t length = shape.empty() ? 1 : static_cast<std::size_t>(shape.back());
  if (const auto range = integers_of(dtype)) return check_integer_fit(values, *range, what, length);
  return check_float_fit(values, dtype, what, length);
}

}  // namespace

Result<Values> parse_values(std::string_view text) {
  const std::string where(text);
  const auto call = parse_call(text);
  if (!call) return bad_values("'" + where + "' is not a way to fill an input", where, std::string(kForms));
  for (const auto& form : kKnownForms) {
    if (form.name != call->name) continue;
    if (call->arguments.size() != form.arguments)
      return bad_values(fmt::format("'{}' takes {} number{}, received {}", form.name, form.arguments,
                                    form.arguments == 1 ? "" : "s", call->arguments.size()),
                        where, std::string(kForms));
    Values values = form.values;
    if (form.arguments > 0) values.low = call->arguments[0];
    if (form.arguments > 1) values.high = call->arguments[1];
    if (const auto wrong = wrong_bounds(values); !wrong.empty())
      return bad_values("'" + where + "': " + std::string(wrong), where, "for example tokens(0,1000) or uniform(-1,1)");
    return values;
  }
  return bad_values("'" + where + "' is not a way to fill an input", where, std::string(kForms));
}

std::string to_string(const Values& values) {
  switch (values.kind) {
    case Values::Kind::normal:
      return "normal";
    case Values::Kind::uniform:
      return fmt::format("uniform({},{})", values.low, values.high);
    case Values::Kind::tokens:
      return fmt::format("tokens({},{})", values.low, values.high);
    case Values::Kind::constant:
      if (values.low == 1) return "ones";
      return values.low == 0 ? "zeros" : fmt::format("const({})", values.low);
    case Values::Kind::mask:
      return "mask";
    case Values::Kind::arange:
      return "arange";
  }
  return "";
}

Values default_values(Dtype dtype) {
  if (dtype == Dtype::boolean) return {Values::Kind::mask};
  if (is_integer(dtype)) return {Values::Kind::tokens, 0, 2};
  return {Values::Kind::normal};
}

Result<Tensor> generate(Dtype dtype, const Shape& shape, const Values& values, std::uint64_t seed,
                        std::uint64_t case_index, std::string_view name) {
  if (!element_count(shape))
    return bad_values("input '" + std::string(name) + "' cannot have the shape " + to_string(shape), std::string(name),
                      "give positive sizes");
  auto fits = check_fit(values, dtype, shape);
  if (!fits) {
    fits.error().message = "input '" + std::string(name) + "': " + fits.error().message;
    fits.error().where = name;
    return fail(std::move(fits.error()));
  }
  try {
    Tensor tensor = Tensor::uninitialised(dtype, shape);
    fill_tensor(tensor, fill_for(values, shape, Stream(seed, case_index, name)), values.kind == Values::Kind::constant);
    return tensor;
  } catch (const std::bad_alloc&) {
    return bad_values("there is not enough memory for input '" + std::string(name) + "' of shape " + to_string(shape),
                      std::string(name), "give smaller sizes");
  }
}

}  // namespace portwright
