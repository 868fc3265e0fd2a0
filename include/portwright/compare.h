// Two answers to one question: metrics for each output, and a verdict.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "portwright/result.h"
#include "portwright/tensor.h"
#include "portwright/verdict.h"

namespace portwright {

// Floats pass when |a - r| <= atol + rtol * |r|; integers and booleans must be equal.
struct Policy {
  double rtol = 1e-3;
  double atol = 1e-3;
  std::string precision = "fp32";
};
// The one table of defaults, each with its reason, is in verify/policy.cc. An unknown precision gets those of fp32.
Policy policy_for(const std::string& precision);

// All of it is taken in one pass over the data. Complex numbers: |.| is the modulus.
// Elements where either side is NaN or Inf are counted in `nonfinite` and left out of the error metrics; they are out
// of tolerance unless both sides hold a NaN or the same Inf. When shapes or dtypes differ, or a side has no such
// output, nothing is computed: the metrics are NaN and all elements count as out of tolerance.
struct OutputMetrics {
  std::string name;
  Verdict verdict = Verdict::not_run;
  std::string reason;  // why it is not passed: "shape", "dtype", "missing", "unexpected", "nonfinite", "tolerance"
  Dtype dtype = Dtype::f32, reference_dtype = Dtype::f32;
  Shape shape, reference_shape;
  std::uint64_t count = 0;
  double max_abs = 0;
  double max_rel = 0;  // |a - r| / |r|, over elements with r != 0
  double mean_abs = 0;
  double rmse = 0;
  double cosine = 1;  // 1 when both are zero
  double snr_db = 0;  // 10 log10(sum r^2 / sum (a - r)^2); inf when equal
  std::uint64_t out_of_tolerance = 0;
  std::optional<double> top1_agreement;  // 2-D floats: share of rows whose argmax agrees
  std::uint64_t nonfinite_actual = 0, nonfinite_reference = 0;
  std::vector<std::int64_t>
      worst_index;  // of the largest |a - r| (a nonfinite disagreement outranks all); first one wins
  double worst_actual = 0, worst_reference = 0;
  double reference_rms = 0;
  bool constant = false;  // all elements of the actual output are equal (and there is more than one)
};

struct Comparison {
  Verdict verdict = Verdict::not_run;
  Policy policy;
  std::vector<OutputMetrics> outputs;
};

// Outputs are matched by name; when no name matches and the counts agree, by position. Passed when all outputs are;
// vacuous when that holds and there was not one element to compare. A constant output is only marked: whether it makes
// a pass vacuous is validate's to say. `threads` 0: all cores for large tensors; the result does not depend on it.
// Tensors may be unaligned (map_npz).
Comparison compare(const Tensors& actual, const Tensors& reference, const Policy& policy, int threads = 0);
OutputMetrics compare_output(const std::string& name, const Tensor& actual, const Tensor& reference,
                             const Policy& policy, int threads = 0);

}  // namespace portwright
