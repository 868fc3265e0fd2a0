// Figures of a sample of timings.
#pragma once

#include <vector>

#include "portwright/bench.h"

namespace portwright {

double mean(const std::vector<double>& sample);
// Linear interpolation between order statistics (type 7 of Hyndman and Fan, NumPy's default). `share` in [0, 1].
double percentile(std::vector<double> sample, double share);
// 95 % confidence interval of the mean, Student's t with n - 1 degrees of freedom; the mean itself for one value.
Interval confidence(const std::vector<double>& sample);
// 95 % confidence interval of the median, whatever the distribution: the order statistics k and n + 1 - k, with the
// largest k for which a binomial variable (n, 1/2) is below k with a probability of at most 2.5 % (David and Nagaraja,
// Order Statistics, 7.1). Below six values there is none, and it is all of the sample.
Interval confidence_of_median(std::vector<double> sample);

}  // namespace portwright
