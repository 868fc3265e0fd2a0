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

}  // namespace portwright
