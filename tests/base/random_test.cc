#include "base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <map>
#include <set>

#include "base/digest.h"
#include "base/files.h"
#include "base/python_peer.h"
#include "portwright/npz.h"

// Under the address sanitizer too, too large an allocation must fail and not end the program.
// NOLINTNEXTLINE(bugprone-reserved-identifier): its own name
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1"; }

namespace portwright {
namespace {

constexpr std::uint64_t kSeed = 0x0123456789ABCDEF;

Tensor make(Dtype dtype, const Shape& shape, const std::string& values, std::uint64_t seed = kSeed,
            std::uint64_t case_index = 3, std::string_view name = "x") {
  const auto tensor = generate(dtype, shape, parse_values(values).value(), seed, case_index, name);
  EXPECT_TRUE(tensor) << tensor.error().message;
  return tensor.value_or(Tensor());
}

template <class T>
std::vector<T> vector_of(const Tensor& tensor) {
  return {tensor.as<T>().begin(), tensor.as<T>().end()};
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::equal(a.bytes().begin(), a.bytes().end(), b.bytes().begin(), b.bytes().end());
}

TEST(Random, AgreesWithAnIndependentImplementation) {
  const auto folder = ScratchFolder::make("random_test");
  const auto file = folder->path() / "a.npz";
  const Shape shape{7, 433};  // odd, and more than one piece
  ASSERT_TRUE(write_npz(file, {{"uniform", make(Dtype::f64, shape, "uniform(-2,3)")},
                               {"tokens", make(Dtype::i64, shape, "tokens(-7,30522)")},
                               {"normal", make(Dtype::f64, shape, "normal")},
                               {"normal32", make(Dtype::f32, shape, "normal")},
                               {"normal16", make(Dtype::f16, shape, "normal")}}));
  run_python("base/random_peer.py", {file.string(), std::to_string(kSeed), "3", "x"});
}

// Every machine must give these; random_peer.py has accepted the values behind them.
TEST(Random, GivesTheSameBitsOnEveryMachine) {
  EXPECT_EQ(digest(Tensors{{"x", make(Dtype::f64, {100'001}, "normal")}}),
            "sha256:4a3ec85e2839be7f94f6d73a516c2fdfd7394fb5cfaaf3b00c1d1a6941936a2b");
  EXPECT_EQ(digest(Tensors{{"x", make(Dtype::f32, {100'001}, "normal")}}),
            "sha256:b8a9d6251e2118b515229331140fb5063a05bdab511b4a2e7cb67bbbb21f40d5");
  EXPECT_EQ(digest(Tensors{{"x", make(Dtype::f32, {100'001}, "uniform(-1,1)")}}),
            "sha256:49d0e2be3873cbe109021cf4a086d5719c3675e19a583346ab95ccdda3980551");
}

// Both are functions of the same bits, so the normal distribution function of one must give the other.
TEST(Random, NormalIsTheQuantileOfUniform) {
  const Tensor normal = make(Dtype::f64, {200'000}, "normal"), uniform = make(Dtype::f64, {200'000}, "uniform(0,1)");
  for (std::size_t i = 0; i < normal.count(); ++i) {
    const double x = normal.as<double>()[i], p = uniform.as<double>()[i];
    const double tail = std::min(p, 1 - p);
    ASSERT_NEAR(std::erfc(std::fabs(x) / std::sqrt(2.0)) / 2, tail, 1e-13 * tail) << i;
    ASSERT_EQ(x > 0, p > 0.5) << i;
  }
}

TEST(Random, NormalHasTheRightMoments) {
  const std::size_t n = 1'000'000;
  const Tensor t = make(Dtype::f32, {1000, 1000}, "normal");
  double sum = 0, square = 0, cube = 0, fourth = 0;
  for (const double x : t.as<float>()) {
    sum += x;
    square += x * x;
    cube += x * x * x;
    fourth += x * x * x * x;
  }
  // Five standard errors: of x sqrt(1/n), of x^2 sqrt(2/n), of x^3 sqrt(15/n), of x^4 sqrt(96/n).
  EXPECT_NEAR(sum / n, 0, 5e-3);
  EXPECT_NEAR(square / n, 1, 5e-3 * std::sqrt(2));
  EXPECT_NEAR(cube / n, 0, 5e-3 * std::sqrt(15));
  EXPECT_NEAR(fourth / n, 3, 5e-3 * std::sqrt(96));
}

TEST(Random, UniformFillsItsRangeEvenly) {
  const Tensor t = make(Dtype::f32, {1'000'000}, "uniform(2,6)");
  std::array<int, 16> bins{};
  for (const float x : t.as<float>()) {
    ASSERT_GE(x, 2);
    ASSERT_LE(x, 6);
    ++bins[std::min<std::size_t>(15, static_cast<std::size_t>((x - 2) * 4))];
  }
  double chi2 = 0;
  for (const int count : bins) chi2 += (count - 62'500.0) * (count - 62'500.0) / 62'500.0;
  EXPECT_LT(chi2, 50);  // 15 degrees of freedom: one in 100 000 exceeds it
}

TEST(Random, TokensReachBothEndsAndNoFurther) {
  const Tensor t = make(Dtype::i32, {100'000}, "tokens(-2,5)");
  std::map<std::int32_t, int> counts;
  for (const auto x : t.as<std::int32_t>()) ++counts[x];
  ASSERT_EQ(counts.size(), 7U);
  EXPECT_EQ(counts.begin()->first, -2);
  EXPECT_EQ(counts.rbegin()->first, 4);
  for (const auto& [value, count] : counts) EXPECT_NEAR(count, 100'000 / 7.0, 600) << value;
  for (const auto x : vector_of<std::uint8_t>(make(Dtype::u8, {1000}, "tokens(255,256)"))) EXPECT_EQ(x, 255);
  for (const auto x : vector_of<std::uint8_t>(make(Dtype::boolean, {1000}, "tokens(0,2)"))) EXPECT_LE(x, 1);
}

TEST(Random, EachOfSeedCaseAndNameChangesAllValues) {
  const Tensor base = make(Dtype::f64, {1000}, "normal", 1, 2, "x");
  for (const Tensor& other :
       {make(Dtype::f64, {1000}, "normal", 2, 2, "x"), make(Dtype::f64, {1000}, "normal", 1, 1, "x"),
        make(Dtype::f64, {1000}, "normal", 1ULL << 40, 2, "x"), make(Dtype::f64, {1000}, "normal", 1, 2, "y"),
        make(Dtype::f64, {1000}, "normal", 1, 2, "")}) {
    double dot = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      EXPECT_NE(base.as<double>()[i], other.as<double>()[i]);
      dot += base.as<double>()[i] * other.as<double>()[i];
    }
    EXPECT_LT(std::fabs(dot) / 1000, 5 / std::sqrt(1000.0));  // correlation within five standard errors
  }
  EXPECT_TRUE(same_bytes(base, make(Dtype::f64, {1000}, "normal", 1, 2, "x")));
}

TEST(Random, LongerFirstAxisKeepsTheRowsItHad) {
  for (const std::string values : {"normal", "uniform(0,1)", "mask", "arange", "ones"}) {
    const Tensor small = make(Dtype::f32, {3, 7, 61}, values), large = make(Dtype::f32, {40, 7, 61}, values);
    EXPECT_TRUE(std::equal(small.bytes().begin(), small.bytes().end(), large.bytes().begin())) << values;
  }
}

TEST(Random, NarrowFloatsAreTheRoundedFloat32) {
  const Tensor wide = make(Dtype::f32, {5000}, "normal");
  EXPECT_TRUE(same_bytes(make(Dtype::f16, {5000}, "normal"), converted(wide, Dtype::f16)));
  EXPECT_TRUE(same_bytes(make(Dtype::bf16, {5000}, "normal"), converted(wide, Dtype::bf16)));
}

TEST(Random, MaskHidesTheLastQuarterOfTheLastAxis) {
  EXPECT_EQ(vector_of<std::int64_t>(make(Dtype::i64, {2, 9}, "mask")),
            (std::vector<std::int64_t>{1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 0, 0}));
  EXPECT_EQ(vector_of<std::uint8_t>(make(Dtype::boolean, {4}, "mask")), (std::vector<std::uint8_t>{1, 1, 1, 0}));
  EXPECT_EQ(vector_of<float>(make(Dtype::f32, {1}, "mask")), std::vector<float>{1});
  EXPECT_EQ(vector_of<float>(make(Dtype::f32, {}, "mask")), std::vector<float>{1});
}

TEST(Random, ConstantsAndRanges) {
  EXPECT_EQ(vector_of<double>(make(Dtype::f64, {2}, "const(-2.5)")), (std::vector<double>{-2.5, -2.5}));
  EXPECT_EQ(vector_of<std::int8_t>(make(Dtype::i8, {2}, "const(-128)")), (std::vector<std::int8_t>{-128, -128}));
  EXPECT_EQ(vector_of<std::uint8_t>(make(Dtype::boolean, {2}, "zeros")), (std::vector<std::uint8_t>{0, 0}));
  EXPECT_EQ(vector_of<std::int32_t>(make(Dtype::i32, {2, 3}, "arange")), (std::vector<std::int32_t>{0, 1, 2, 0, 1, 2}));
  EXPECT_EQ(vector_of<std::int64_t>(make(Dtype::i64, {}, "arange")), std::vector<std::int64_t>{0});
  EXPECT_EQ(vector_of<std::complex<float>>(make(Dtype::c64, {1}, "ones")), std::vector{std::complex<float>(1, 0)});
  EXPECT_EQ(make(Dtype::f32, {0, 5}, "normal").count(), 0U);
  EXPECT_EQ(make(Dtype::f32, {5, 0}, "arange").count(), 0U);
}

TEST(Random, TextFormsComeBack) {
  for (const std::string text : {"normal", "uniform(-1,1)", "uniform(0.25,1e+30)", "tokens(0,30522)", "ones", "zeros",
                                 "const(-0.5)", "mask", "arange"}) {
    const auto values = parse_values(text);
    ASSERT_TRUE(values) << text << ": " << values.error().message;
    EXPECT_EQ(to_string(*values), text);
  }
  EXPECT_EQ(to_string(parse_values(" tokens( 1 , 9 ) ").value()), "tokens(1,9)");
}

TEST(Random, BadTextFormsSayWhatIsKnown) {
  for (const std::string text : {"",
                                 "gauss",
                                 "uniform",
                                 "uniform(1)",
                                 "uniform(1,2,3)",
                                 "uniform(1,2",
                                 "uniform(1,2)x",
                                 "uniform(a,b)",
                                 "uniform(,)",
                                 "uniform(2,1)",
                                 "uniform(1,1)",
                                 "uniform(0,inf)",
                                 "uniform(-1e308,1e308)",
                                 "tokens(0.5,2)",
                                 "tokens(3,3)",
                                 "tokens(0,1e300)",
                                 "normal()",
                                 "ones(2)",
                                 "const()",
                                 "const(1,2)",
                                 "(1,2)",
                                 "Normal"}) {
    const auto values = parse_values(text);
    ASSERT_FALSE(values) << text;
    EXPECT_EQ(values.error().code, "bad_values") << text;
    EXPECT_EQ(values.error().fault, Fault::usage) << text;
    EXPECT_NE(values.error().message.find("'" + (text.find('(') ? text.substr(0, text.find('(')) : text)),
              std::string::npos)
        << text << ": " << values.error().message;
    EXPECT_FALSE(values.error().hint.empty()) << text;
  }
}

TEST(Random, ValuesThatDoNotFitTheDtypeAreRefused) {
  const std::vector<std::tuple<Dtype, std::string, Shape>> bad{{Dtype::i64, "normal", {2}},
                                                               {Dtype::i32, "uniform(0,9)", {2}},
                                                               {Dtype::f32, "tokens(0,9)", {2}},
                                                               {Dtype::u8, "tokens(0,257)", {2}},
                                                               {Dtype::u8, "tokens(-1,9)", {2}},
                                                               {Dtype::boolean, "tokens(0,3)", {2}},
                                                               {Dtype::i8, "const(128)", {2}},
                                                               {Dtype::i32, "const(0.5)", {2}},
                                                               {Dtype::i64, "const(9223372036854775808)", {2}},
                                                               {Dtype::i64, "const(nan)", {2}},
                                                               {Dtype::boolean, "normal", {2}},
                                                               {Dtype::u8, "arange", {257}},
                                                               {Dtype::f16, "const(65536)", {2}},
                                                               {Dtype::f16, "uniform(0,1e6)", {2}},
                                                               {Dtype::f32, "const(1e39)", {2}},
                                                               {Dtype::f16, "arange", {70000}},
                                                               {Dtype::c64, "mask", {2}},
                                                               {Dtype::f32, "normal", {2, -1}},
                                                               {Dtype::f32, "normal", {1LL << 40, 1LL << 40}},
                                                               {Dtype::f32, "normal", {1LL << 50}}};
  for (const auto& [dtype, values, shape] : bad) {
    const auto got = generate(dtype, shape, parse_values(values).value(), 1, 0, "input_ids");
    ASSERT_FALSE(got) << values << " " << to_string(dtype);
    EXPECT_EQ(got.error().code, "bad_values");
    EXPECT_EQ(got.error().where, "input_ids");
    EXPECT_NE(got.error().message.find("input_ids"), std::string::npos);
    EXPECT_FALSE(got.error().hint.empty()) << got.error().message;
  }
}

TEST(Random, DefaultsFitEveryDtype) {
  for (int i = 0; i <= static_cast<int>(Dtype::c128); ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const auto got = generate(dtype, {3, 5}, default_values(dtype), 1, 0, "x");
    ASSERT_TRUE(got) << to_string(dtype) << got.error().message;
    const std::set<std::byte> bytes(got->bytes().begin(), got->bytes().end());
    EXPECT_GT(bytes.size(), 1U) << to_string(dtype);
  }
}

}  // namespace
}  // namespace portwright
