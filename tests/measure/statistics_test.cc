// Expected values: NumPy's percentile() and SciPy's t.interval() on the same samples.
#include "measure/statistics.h"

#include <gtest/gtest.h>

namespace portwright {
namespace {

TEST(Statistics, PercentilesInterpolateAsNumPyDoes) {
  const std::vector<double> sample{4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(percentile(sample, 0.0), 1);
  EXPECT_DOUBLE_EQ(percentile(sample, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(percentile(sample, 0.9), 3.7);
  EXPECT_DOUBLE_EQ(percentile(sample, 1.0), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(percentile({}, 0.5), 0);
}

TEST(Statistics, IntervalsAreStudents) {
  // mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776: half width 1.9634
  const Interval interval = confidence({1, 2, 3, 4, 5});
  EXPECT_NEAR(interval.low, 3 - 1.9634, 1e-3);
  EXPECT_NEAR(interval.high, 3 + 1.9634, 1e-3);
}

TEST(Statistics, BeyondTheTableTheIntervalStaysStudents) {
  std::vector<double> sample;
  for (int i = 0; i < 101; ++i) sample.push_back(i % 2);  // t(0.975, 100) = 1.98397
  const Interval interval = confidence(sample);
  const double deviation = 0.502469;  // of 50 ones and 51 zeros, n - 1
  EXPECT_NEAR((interval.high - interval.low) / 2, 1.98397 * deviation / 10.04988, 1e-4);
}

// The ranks are those of the tables of the sign test: 1 for 6 values, 2 for 10, 6 for 20, 40 for 100.
TEST(Statistics, TheIntervalOfAMedianIsBetweenOrderStatistics) {
  for (const auto& [count, rank] :
       std::vector<std::pair<int, int>>{{3, 1}, {6, 1}, {8, 1}, {9, 2}, {10, 2}, {20, 6}, {100, 40}}) {
    std::vector<double> sample;
    for (int i = count; i > 0; --i) sample.push_back(i);
    const Interval interval = confidence_of_median(sample);
    EXPECT_EQ(interval.low, rank) << count;
    EXPECT_EQ(interval.high, count + 1 - rank) << count;
  }
  EXPECT_LT(confidence_of_median({1, 1, 1, 1, 1, 1, 1, 1, 1, 1000}).high, 2);  // one disturbed round moves nothing
}

TEST(Statistics, OneValueIsItsOwnInterval) {
  const Interval interval = confidence({2.5});
  EXPECT_EQ(interval.low, 2.5);
  EXPECT_EQ(interval.high, 2.5);
}

}  // namespace
}  // namespace portwright
