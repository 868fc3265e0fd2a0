#include "report/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace portwright {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

TEST(Format, Errors) {
  EXPECT_EQ(format_error(0), "0");
  EXPECT_EQ(format_error(2.13e-6), "2.1e-06");
  EXPECT_EQ(format_error(0.3124), "0.31");
  EXPECT_EQ(format_error(12.4), "12");
  EXPECT_EQ(format_error(-0.5), "-0.50");
  EXPECT_EQ(format_error(std::nan("")), "nan");
  EXPECT_EQ(format_error(-kInf), "-inf");
}

TEST(Format, Significant) {
  EXPECT_EQ(format_significant(0.9117), "0.912");
  EXPECT_EQ(format_significant(1234.4), "1234");
  EXPECT_EQ(format_significant(0.00001), "1.00e-05");
  EXPECT_EQ(format_significant(0), "0");
}

TEST(Format, Times) {
  EXPECT_EQ(format_ms(8.414), "8.41 ms");
  EXPECT_EQ(format_ms(1204), "1.20 s");
  EXPECT_EQ(format_seconds(0.41), "0.4 s");
  EXPECT_EQ(format_seconds(192.2), "3 min 12 s");
  EXPECT_EQ(format_seconds(59.999), "60.0 s");
  EXPECT_EQ(format_seconds(7325), "2 h 02 min");
}

TEST(Format, Sizes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(44.7e6), "44.7 MB");
  EXPECT_EQ(format_bytes(999.9e6), "1.00 GB");
  EXPECT_EQ(format_count(11689512), "11,689,512");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(-1000), "-1,000");
}

TEST(Format, Shares) {
  EXPECT_EQ(format_percent(0.875), "87.5 %");
  EXPECT_EQ(format_percent(1), "100 %");
  EXPECT_EQ(format_percent(0.99999), "99.999 %");  // never rounded up to all
  EXPECT_EQ(format_ratio(1.844), "1.84x");
  EXPECT_EQ(or_dash(std::nullopt, format_ratio), "-");
}

}  // namespace
}  // namespace portwright
