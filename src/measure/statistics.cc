#include "measure/statistics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

namespace portwright {
namespace {

// Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom; any table of the distribution has them.
constexpr std::array<double, 30> kStudent{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                          2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
                                          2.080,  2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042};

// Beyond the table: the first two terms of the expansion about the normal quantile z, z + (z^3 + z) / (4 n)
// (Abramowitz and Stegun 26.7.5).
double student(std::size_t freedom) {
  if (freedom <= kStudent.size()) return kStudent[freedom - 1];
  constexpr double z = 1.959964;
  return z + (z * z * z + z) / (4.0 * static_cast<double>(freedom));
}

}  // namespace

double mean(const std::vector<double>& sample) {
  return sample.empty() ? 0 : std::accumulate(sample.begin(), sample.end(), 0.0) / static_cast<double>(sample.size());
}

double percentile(std::vector<double> sample, double share) {
  if (sample.empty()) return 0;
  std::sort(sample.begin(), sample.end());
  const double place = share * static_cast<double>(sample.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto above = std::min(below + 1, sample.size() - 1);
  return sample[below] + (place - static_cast<double>(below)) * (sample[above] - sample[below]);
}

Interval confidence(const std::vector<double>& sample) {
  const double middle = mean(sample);
  if (sample.size() < 2) return {middle, middle};
  double squares = 0;
  for (const double value : sample) squares += (value - middle) * (value - middle);
  const auto n = static_cast<double>(sample.size());
  const double half = student(sample.size() - 1) * std::sqrt(squares / (n - 1) / n);
  return {middle - half, middle + half};
}

Interval confidence_of_median(std::vector<double> sample) {
  if (sample.empty()) return {0, 0};
  std::sort(sample.begin(), sample.end());
  const auto n = static_cast<double>(sample.size());
  // P(X = 0), then P(X = i) from P(X = i - 1); in logarithms, for 2^-n is nothing in a large sample.
  std::size_t k = 0;
  double log_term = -n * std::numbers::ln2, below = std::exp(log_term);
  while (below <= 0.025 && k + 1 <= sample.size() / 2) {
    ++k;
    log_term += std::log((n - static_cast<double>(k) + 1) / static_cast<double>(k));
    below += std::exp(log_term);
  }
  const std::size_t first = k == 0 ? 0 : k - 1;
  return {sample[first], sample[sample.size() - 1 - first]};
}

}  // namespace portwright
