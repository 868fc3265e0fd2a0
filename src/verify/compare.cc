#include "portwright/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "verify/scan.h"

namespace portwright {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::vector<std::int64_t> place_of(std::size_t index, const Shape& shape) {
  std::vector<std::int64_t> place(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    const auto size = static_cast<std::size_t>(shape[axis]);
    place[axis] = static_cast<std::int64_t>(index % size);
    index /= size;
  }
  return place;
}

double cosine_of(const Sums& s) {
  if (s.aa == 0 && s.rr == 0) return 1;
  if (s.aa == 0 || s.rr == 0) return 0;
  return static_cast<double>(std::clamp(s.ar / (std::sqrt(s.aa) * std::sqrt(s.rr)), -1.0L, 1.0L));
}

double snr_of(const Sums& s) {
  if (s.dd == 0) return std::numeric_limits<double>::infinity();
  return static_cast<double>(10 * std::log10(s.rr / s.dd));
}

void set_metrics(OutputMetrics& m, const Sums& s) {
  const auto mean = [&](long double sum) { return s.finite == 0 ? 0.0L : sum / static_cast<long double>(s.finite); };
  m.max_abs = std::max(s.max_abs, 0.0);
  m.max_rel = s.max_rel;
  m.mean_abs = static_cast<double>(mean(s.abs));
  m.rmse = static_cast<double>(std::sqrt(mean(s.dd)));
  m.cosine = cosine_of(s);
  m.snr_db = snr_of(s);
  m.reference_rms = static_cast<double>(std::sqrt(mean(s.rr)));
  m.out_of_tolerance = s.outside;
  m.nonfinite_actual = s.nonfinite_actual;
  m.nonfinite_reference = s.nonfinite_reference;
  m.constant = m.count > 1 && !s.varied;
}

// An output whose numbers could not be compared: all of it is out of tolerance, and no metric has a value.
OutputMetrics refused(OutputMetrics m, std::string reason) {
  m.verdict = Verdict::mismatch;
  m.reason = std::move(reason);
  m.out_of_tolerance = m.count;
  m.max_abs = m.max_rel = m.mean_abs = m.rmse = m.cosine = m.snr_db = m.reference_rms = kNaN;
  m.worst_actual = m.worst_reference = kNaN;
  return m;
}

// An output that only one side has.
OutputMetrics alone(const NamedTensor& output, std::string reason) {
  OutputMetrics m;
  m.name = output.name;
  m.dtype = m.reference_dtype = output.tensor.dtype();
  m.shape = m.reference_shape = output.tensor.shape();
  m.count = output.tensor.count();
  return refused(std::move(m), std::move(reason));
}

bool any_name_matches(const Tensors& actual, const Tensors& reference) {
  return std::any_of(reference.begin(), reference.end(),
                     [&](const NamedTensor& r) { return find(actual, r.name) != nullptr; });
}

Verdict overall(const std::vector<OutputMetrics>& outputs) {
  Verdict verdict = Verdict::passed;
  std::uint64_t compared = 0;
  for (const OutputMetrics& m : outputs) {
    verdict = worse(verdict, m.verdict);
    compared += m.count;
  }
  return verdict == Verdict::passed && compared == 0 ? Verdict::vacuous : verdict;
}

}  // namespace

OutputMetrics compare_output(const std::string& name, const Tensor& actual, const Tensor& reference,
                             const Policy& policy, int threads) {
  OutputMetrics m;
  m.name = name;
  m.dtype = actual.dtype();
  m.reference_dtype = reference.dtype();
  m.shape = actual.shape();
  m.reference_shape = reference.shape();
  m.count = reference.count();
  if (m.shape != m.reference_shape) return refused(std::move(m), "shape");
  if (m.dtype != m.reference_dtype) return refused(std::move(m), "dtype");

  const bool exact = !is_float(m.dtype) && !is_complex(m.dtype);
  const auto [sums, rows_agreeing] =
      scan(actual, reference, exact ? Tolerance{} : Tolerance{policy.rtol, policy.atol}, threads);
  set_metrics(m, sums);
  if (rows_agreeing) m.top1_agreement = static_cast<double>(*rows_agreeing) / static_cast<double>(m.shape[0]);
  m.worst_actual = sums.worst ? element(actual, *sums.worst) : kNaN;
  m.worst_reference = sums.worst ? element(reference, *sums.worst) : kNaN;
  if (sums.worst) m.worst_index = place_of(*sums.worst, m.shape);
  m.verdict = sums.outside == 0 ? Verdict::passed : Verdict::mismatch;
  if (sums.outside > 0) m.reason = sums.disagreement ? "nonfinite" : "tolerance";
  return m;
}

Comparison compare(const Tensors& actual, const Tensors& reference, const Policy& policy, int threads) {
  Comparison comparison{Verdict::not_run, policy, {}};
  auto& outputs = comparison.outputs;
  if (actual.size() == reference.size() && !any_name_matches(actual, reference)) {
    for (std::size_t i = 0; i < reference.size(); ++i)
      outputs.push_back(compare_output(reference[i].name, actual[i].tensor, reference[i].tensor, policy, threads));
  } else {
    for (const NamedTensor& r : reference) {
      const Tensor* a = find(actual, r.name);
      outputs.push_back(a != nullptr ? compare_output(r.name, *a, r.tensor, policy, threads) : alone(r, "missing"));
    }
    for (const NamedTensor& a : actual)
      if (find(reference, a.name) == nullptr) outputs.push_back(alone(a, "unexpected"));
  }
  comparison.verdict = overall(outputs);
  return comparison;
}

}  // namespace portwright
