#include "portwright/compare.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cmath>
#include <limits>
#include <string>

#include "base/files.h"
#include "base/python_peer.h"
#include "base/random.h"
#include "portwright/npz.h"
#include "verify/records.h"

namespace portwright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Tensor floats(Shape shape, const std::vector<float>& values) {
  Tensor t = Tensor::uninitialised(Dtype::f32, std::move(shape));
  std::copy(values.begin(), values.end(), t.as_mutable<float>().begin());
  return t;
}

OutputMetrics compared(const Tensor& a, const Tensor& r, const Policy& policy = {}) {
  return compare_output("y", a, r, policy);
}

// Runs the loops for one instruction set after another, as far as this processor has them; 0 is the portable one.
template <class Body>
void with_each_instruction_set(const Body& body) {
  for (const std::int64_t target : std::initializer_list<std::int64_t>{0, HWY_SSE4, HWY_AVX2, HWY_AVX3}) {
    if ((hwy::SupportedTargets() & target) != target) continue;
    SCOPED_TRACE(target == 0 ? "portable" : hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    body();
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Compare, AgreesWithNumpyOnEveryDtypeAndSize) {
  const auto folder = ScratchFolder::make("compare_test");
  run_python("verify/compare_peer.py", {"make", folder->path().string()});
  const auto actual = map_npz(folder->path() / "actual.npz"), reference = map_npz(folder->path() / "reference.npz");
  ASSERT_TRUE(actual && reference) << actual.error().message;
  int sets = 0;
  with_each_instruction_set([&] {
    const auto file = folder->path() / ("metrics" + std::to_string(sets++) + ".json");
    ASSERT_TRUE(write_json(file, to_json(compare(*actual, *reference, Policy{}))));
  });
  const std::string checked = run_python("verify/compare_peer.py", {"check", folder->path().string()});
  EXPECT_GT(std::atoi(checked.c_str()), 400);
}

TEST(Compare, ResultDoesNotDependOnThreads) {
  const Shape shape{1031, 1009};
  const Tensor a = generate(Dtype::f32, shape, {}, 1, 0, "a").value(),
               r = generate(Dtype::f32, shape, {}, 1, 0, "r").value();
  const Tensors actual{{"y", a}}, reference{{"y", r}};
  const auto record = [&](int threads) {
    const Comparison comparison = compare(actual, reference, Policy{}, threads);
    return to_json(comparison).dump();
  };
  const std::string one = record(1);
  for (const int threads : {2, 3, 7, 0}) EXPECT_EQ(record(threads), one) << threads;
}

TEST(Compare, MetricsByHand) {
  const auto m = compared(floats({2, 2}, {1, 2, 3, 5}), floats({2, 2}, {1, 2, 3, 4}));
  EXPECT_EQ(m.verdict, Verdict::mismatch);
  EXPECT_EQ(m.reason, "tolerance");
  EXPECT_EQ(m.count, 4U);
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.max_rel, 0.25);
  EXPECT_EQ(m.mean_abs, 0.25);
  EXPECT_EQ(m.rmse, 0.5);
  EXPECT_DOUBLE_EQ(m.cosine, 34 / std::sqrt(39.0 * 30.0));
  EXPECT_DOUBLE_EQ(m.snr_db, 10 * std::log10(30.0));
  EXPECT_DOUBLE_EQ(m.reference_rms, std::sqrt(7.5));
  EXPECT_EQ(m.out_of_tolerance, 1U);
  EXPECT_EQ(m.top1_agreement, 1.0);
  EXPECT_EQ(m.worst_index, (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(m.worst_actual, 5);
  EXPECT_EQ(m.worst_reference, 4);
  EXPECT_FALSE(m.constant);
}

TEST(Compare, EqualArraysPassWithInfiniteSnr) {
  const Tensor t = generate(Dtype::f32, {10, 100}, {}, 1, 0, "x").value();
  const auto m = compared(t, t.clone(), {.rtol = 0, .atol = 0});
  EXPECT_EQ(m.verdict, Verdict::passed);
  EXPECT_EQ(m.reason, "");
  EXPECT_EQ(m.max_abs, 0);
  EXPECT_EQ(m.snr_db, kInf);
  EXPECT_EQ(m.worst_index, (std::vector<std::int64_t>{0, 0}));
}

TEST(Compare, ToleranceIsAbsolutePlusRelativeAndIncludesItsEdge) {
  const Policy policy{.rtol = 0.5, .atol = 0.25};
  EXPECT_EQ(compared(floats({3}, {1.75, -1.75, 0.25}), floats({3}, {1, -1, 0}), policy).verdict, Verdict::passed);
  const float beyond = std::nextafter(1.75F, 2.0F);
  EXPECT_EQ(compared(floats({1}, {beyond}), floats({1}, {1}), policy).verdict, Verdict::mismatch);
  // |r| is the reference's: the other way round the same pair is further apart than allowed.
  EXPECT_EQ(compared(floats({1}, {1}), floats({1}, {1.75}), {.rtol = 0.4, .atol = 0.0}).verdict, Verdict::mismatch);
  // The edge is the same in the vectorised loop.
  Tensor a = Tensor::zeros(Dtype::f32, {64}), r = Tensor::zeros(Dtype::f32, {64});
  std::ranges::fill(a.as_mutable<float>(), 1.75F);
  std::ranges::fill(r.as_mutable<float>(), 1.0F);
  with_each_instruction_set([&] {
    a.as_mutable<float>()[5] = 1.75F;
    EXPECT_EQ(compared(a, r, policy).out_of_tolerance, 0U);
    a.as_mutable<float>()[5] = beyond;
    EXPECT_EQ(compared(a, r, policy).out_of_tolerance, 1U);
  });
}

TEST(Compare, SameNonfiniteValuesPassAndOthersFail) {
  const float inf = static_cast<float>(kInf);
  const auto same = compared(floats({4}, {kNaN, inf, -inf, 1}), floats({4}, {-kNaN, inf, -inf, 1}));
  EXPECT_EQ(same.verdict, Verdict::passed);
  EXPECT_EQ(same.nonfinite_actual, 3U);
  EXPECT_EQ(same.nonfinite_reference, 3U);
  EXPECT_EQ(same.max_abs, 0);
  for (const auto& [a, r] :
       {std::pair{kNaN, 1.0F}, {1.0F, kNaN}, {inf, -inf}, {inf, kNaN}, {inf, 1.0F}, {1.0F, -inf}}) {
    const auto m = compared(floats({3}, {0, 100, a}), floats({3}, {0, 1, r}));
    EXPECT_EQ(m.verdict, Verdict::mismatch);
    EXPECT_EQ(m.reason, "nonfinite");
    EXPECT_EQ(m.max_abs, 99) << "nonfinite elements stay out of the error metrics";
    EXPECT_EQ(m.worst_index, std::vector<std::int64_t>{2}) << "a nonfinite disagreement outranks all";
    EXPECT_EQ(m.out_of_tolerance, 2U);
  }
  const auto all = compared(floats({2}, {kNaN, kNaN}), floats({2}, {kNaN, kNaN}));
  EXPECT_EQ(all.verdict, Verdict::passed);
  EXPECT_TRUE(all.constant);
  EXPECT_EQ(all.cosine, 1);
  EXPECT_TRUE(all.worst_index.empty());
}

TEST(Compare, ShapeAndDtypeComeBeforeNumbers) {
  const Tensor t = floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto shape = compared(t, t.reshaped({3, 2}));
  EXPECT_EQ(shape.verdict, Verdict::mismatch);
  EXPECT_EQ(shape.reason, "shape");
  EXPECT_TRUE(std::isnan(shape.max_abs));
  EXPECT_EQ(shape.out_of_tolerance, 6U);
  const auto dtype = compared(t, converted(t, Dtype::f16));
  EXPECT_EQ(dtype.verdict, Verdict::mismatch);
  EXPECT_EQ(dtype.reason, "dtype");
  EXPECT_EQ(compared(floats({1}, {1}), floats({}, {1})).reason, "shape") << "a scalar is not a vector of one";
}

TEST(Compare, IntegersMustBeEqualWhateverTheTolerance) {
  Tensor a = Tensor::zeros(Dtype::i64, {3}), r = Tensor::zeros(Dtype::i64, {3});
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  a.as_mutable<std::int64_t>()[1] = most;
  r.as_mutable<std::int64_t>()[1] = most - 1;  // equal as doubles
  const auto m = compared(a, r, {.rtol = 1, .atol = 100});
  EXPECT_EQ(m.verdict, Verdict::mismatch);
  EXPECT_EQ(m.max_abs, 1);
  EXPECT_EQ(m.worst_index, std::vector<std::int64_t>{1});
  a.as_mutable<std::int64_t>()[2] = std::numeric_limits<std::int64_t>::min();
  r.as_mutable<std::int64_t>()[2] = most;
  EXPECT_EQ(compared(a, r).max_abs, 0x1p64);
}

TEST(Compare, BooleansCompareAsTruth) {
  Tensor a = Tensor::zeros(Dtype::boolean, {3}), r = Tensor::zeros(Dtype::boolean, {3});
  a.as_mutable<std::uint8_t>()[0] = 1;
  r.as_mutable<std::uint8_t>()[0] = 2;  // also true
  EXPECT_EQ(compared(a, r).verdict, Verdict::passed);
  r.as_mutable<std::uint8_t>()[2] = 1;
  EXPECT_EQ(compared(a, r).out_of_tolerance, 1U);
}

TEST(Compare, TopOneFollowsRowsThroughBlocksAndChunks) {
  for (const std::int64_t columns : {1, 2, 3, 1000, 4095, 4097, 300'001}) {
    const Shape shape{std::max<std::int64_t>(2, 600'000 / columns), columns};
    Tensor a = Tensor::zeros(Dtype::f32, shape), r = Tensor::zeros(Dtype::f32, shape);
    // Row i of the reference peaks at i mod columns; every third row of the actual at the column after it.
    std::int64_t agreeing = 0;
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      const auto at = [&](std::int64_t column) { return static_cast<std::size_t>(i * columns + column % columns); };
      r.as_mutable<float>()[at(i)] = 1;
      a.as_mutable<float>()[at(i % 3 == 2 ? i + 1 : i)] = 1;
      if (i % 3 != 2 || columns == 1) ++agreeing;
    }
    EXPECT_EQ(compared(a, r).top1_agreement, static_cast<double>(agreeing) / static_cast<double>(shape[0])) << columns;
  }
  EXPECT_FALSE(compared(floats({4}, {1, 2, 3, 4}), floats({4}, {1, 2, 3, 4})).top1_agreement);
  EXPECT_FALSE(compared(floats({0, 3}, {}), floats({0, 3}, {})).top1_agreement);
}

TEST(Compare, ElementsMayLieAtAnyAddress) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::i32, Dtype::i64, Dtype::c128}) {
    const Tensor a = generate(dtype, {9001}, default_values(dtype), 1, 0, "a").value();
    const Tensor r = generate(dtype, {9001}, default_values(dtype), 1, 0, "r").value();
    const auto shifted = [](const Tensor& t, std::size_t by) {
      const auto memory = std::make_shared<std::vector<std::byte>>(t.bytes().size() + by);
      std::copy(t.bytes().begin(), t.bytes().end(), memory->begin() + static_cast<std::ptrdiff_t>(by));
      return Tensor::view(t.dtype(), t.shape(), memory->data() + by, memory);
    };
    const Json aligned = to_json(compare({{"y", a}}, {{"y", r}}, Policy{}));
    for (const std::size_t by : {1, 2, 7, 12})
      EXPECT_EQ(to_json(compare({{"y", shifted(a, by)}}, {{"y", shifted(r, 3)}}, Policy{})), aligned)
          << to_string(dtype) << by;
  }
}

TEST(Compare, OutputsAreMatchedByName) {
  const Tensor one = floats({1}, {1}), two = floats({1}, {2});
  const auto c = compare({{"b", two}, {"a", one}, {"extra", one}}, {{"a", one}, {"b", two}, {"lost", one}}, {});
  ASSERT_EQ(c.outputs.size(), 4U);
  EXPECT_EQ(c.verdict, Verdict::mismatch);
  EXPECT_EQ(c.outputs[0].name, "a");
  EXPECT_EQ(c.outputs[0].verdict, Verdict::passed);
  EXPECT_EQ(c.outputs[1].verdict, Verdict::passed);
  EXPECT_EQ(c.outputs[2].name, "lost");
  EXPECT_EQ(c.outputs[2].reason, "missing");
  EXPECT_EQ(c.outputs[3].name, "extra");
  EXPECT_EQ(c.outputs[3].reason, "unexpected");
}

TEST(Compare, OutputsAreMatchedByPositionOnlyWhenNoNameMatches) {
  const Tensor one = floats({1}, {1}), two = floats({1}, {2});
  const auto c = compare({{"p", one}, {"q", two}}, {{"a", one}, {"b", two}}, {});
  EXPECT_EQ(c.verdict, Verdict::passed);
  EXPECT_EQ(c.outputs[1].name, "b");
  EXPECT_EQ(compare({{"b", one}, {"q", two}}, {{"a", one}, {"b", two}}, {}).verdict, Verdict::mismatch);
  EXPECT_EQ(compare({{"p", one}}, {{"a", one}, {"b", two}}, {}).outputs.size(), 3U);
}

TEST(Compare, NothingComparedIsVacuous) {
  EXPECT_EQ(compare({}, {}, {}).verdict, Verdict::vacuous);
  const Tensor empty = Tensor::zeros(Dtype::f32, {0, 4}), one = floats({1}, {1});
  EXPECT_EQ(compare({{"a", empty}}, {{"a", empty}}, {}).verdict, Verdict::vacuous);
  EXPECT_EQ(compare({{"a", empty}, {"b", one}}, {{"a", empty}, {"b", one}}, {}).verdict, Verdict::passed);
  EXPECT_EQ(compare({}, {{"a", one}}, {}).verdict, Verdict::mismatch);
}

TEST(Policy, LowerPrecisionIsNeverStricter) {
  const Policy fp32 = policy_for("fp32");
  EXPECT_EQ(fp32.rtol, 1e-3);
  EXPECT_EQ(fp32.atol, 1e-3);
  double before = 0;
  for (const auto* precision : {"fp32", "tf32", "fp16", "bf16", "int8"}) {
    const Policy policy = policy_for(precision);
    EXPECT_EQ(policy.precision, precision);
    EXPECT_GE(policy.rtol, before);
    before = policy.rtol;
  }
  EXPECT_EQ(policy_for("something else").rtol, fp32.rtol) << "the strictest for what is not known";
}

TEST(CompareRecord, ComesBack) {
  const float inf = static_cast<float>(kInf);
  const Tensor one = floats({1}, {1});
  const Comparison c = compare(
      {{"a", floats({2, 2}, {1, 2, 3, 4})}, {"b", floats({2}, {kNaN, inf})}, {"c", one}, {"d", one}},
      {{"a", floats({2, 2}, {1, 2, 4, 3})}, {"b", floats({2}, {1, -inf})}, {"c", one}, {"e", one}}, policy_for("bf16"));
  const Json json = to_json(c);
  EXPECT_EQ(to_json(comparison_from(json)), json);
  EXPECT_EQ(to_json(comparison_from(Json::parse(json.dump()))), json);
}

// The names in records.md, which scripts rely on.
TEST(CompareRecord, HasTheDocumentedFields) {
  const Json json = to_json(compare({{"y", floats({1, 2}, {1, 2})}}, {{"y", floats({1, 2}, {1, 2})}}, {}));
  EXPECT_EQ(json["verdict"], "passed");
  for (const auto* key : {"rtol", "atol", "precision"}) EXPECT_TRUE(json["policy"].contains(key)) << key;
  const Json& output = json["outputs"].at(0);
  for (const auto* key :
       {"name", "verdict", "dtype", "shape", "reference_dtype", "reference_shape", "count", "max_abs", "max_rel",
        "mean_abs", "rmse", "cosine", "snr_db", "out_of_tolerance", "top1_agreement", "nonfinite", "worst"})
    EXPECT_TRUE(output.contains(key)) << key;
  EXPECT_EQ(output["snr_db"], "inf");
  EXPECT_EQ(output["nonfinite"], (Json{{"actual", 0}, {"reference", 0}}));
  EXPECT_EQ(output["worst"], (Json{{"index", {0, 0}}, {"actual", 1.0}, {"reference", 1.0}}));
}

TEST(CompareRecord, ReadsDamagedRecordsWithoutFailing) {
  for (const auto* text :
       {"null", "[]", "{}", R"({"verdict": 3, "policy": [], "outputs": {}})",
        R"({"verdict": "nonsense", "outputs": [null, 1, {"shape": "x", "count": -1, "worst": []}]})"}) {
    const Comparison c = comparison_from(Json::parse(text));
    EXPECT_EQ(c.verdict, Verdict::not_run) << text;
  }
}

}  // namespace
}  // namespace portwright
