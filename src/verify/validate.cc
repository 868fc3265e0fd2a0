#include "portwright/validate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>

namespace portwright {
namespace {

std::string label(const Size& size) {
  std::string text;
  for (const auto& [symbol, value] : size) text += (text.empty() ? "" : ", ") + symbol + "=" + std::to_string(value);
  return text.empty() ? "static shapes" : text;
}

std::string key_of(const Size& size, std::uint64_t index) { return label(size) + "#" + std::to_string(index); }

// Every finding but "out of tolerance" decides at once, at any precision.
bool only_out_of_tolerance(const Comparison& comparison) {
  return std::all_of(comparison.outputs.begin(), comparison.outputs.end(), [](const OutputMetrics& output) {
    return output.verdict == Verdict::passed || (output.reason == "tolerance" && is_float(output.dtype));
  });
}

Error as_reference_failure(Error error) {
  error.detail = error.code + ": " + error.detail;
  error.code = "reference_failure";
  error.message = "the reference failed: " + error.message;
  return error;
}

double ratio_of(double engine_error, double torch_error, double floor) {
  if (engine_error <= floor || engine_error == 0)
    return torch_error > 0 && std::isfinite(torch_error) ? engine_error / torch_error : 0;
  return torch_error > 0 ? engine_error / torch_error : std::numeric_limits<double>::infinity();
}

// Error of the engine over error of PyTorch at the same precision, both against fp32; of the worst output.
Drift drift_between(const Comparison& engine, const Comparison& torch, double floor, double limit) {
  Drift drift;
  bool first = true;
  for (const OutputMetrics& output : engine.outputs) {
    const auto twin = std::find_if(torch.outputs.begin(), torch.outputs.end(),
                                   [&](const OutputMetrics& t) { return t.name == output.name; });
    if (twin == torch.outputs.end() || !is_float(output.dtype)) continue;
    // An overflow of the precision itself is an error without bound.
    const double torch_error =
        twin->nonfinite_actual > twin->nonfinite_reference ? std::numeric_limits<double>::infinity() : twin->rmse;
    const double ratio = ratio_of(output.rmse, torch_error, floor);
    if (!first && ratio <= drift.ratio) continue;
    drift = {ratio, torch_error, output.rmse, output.name, ""};
    first = false;
  }
  if (drift.engine_error <= floor)
    drift.verdict = "no_loss";
  else
    drift.verdict = drift.ratio <= limit ? "honest_loss" : "wrong_engine";
  return drift;
}

// More than this share of elements at the output's own minimum or maximum says nothing about the numbers between.
constexpr double kSaturatedShare = 0.999;
constexpr std::size_t kFewElements = 16;

bool saturated(const Tensor& tensor) {
  if (!is_float(tensor.dtype()) || tensor.count() < kFewElements) return false;
  const Tensor floats = converted(tensor, Dtype::f32);
  const auto values = floats.as<float>();
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const auto extremes =
      std::count_if(values.begin(), values.end(), [l = *low, h = *high](float v) { return v == l || v == h; });
  return static_cast<double>(extremes) >= kSaturatedShare * static_cast<double>(values.size());
}

bool constant(const Tensor& tensor) {
  const auto bytes = tensor.bytes();
  const std::size_t size = size_of(tensor.dtype());
  for (std::size_t at = size; at + size <= bytes.size(); at += size)
    if (!std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size),
                    bytes.begin() + static_cast<std::ptrdiff_t>(at)))
      return false;
  return tensor.count() > 1;
}

bool same_bytes(const Tensor& a, const Tensor& b) { return std::ranges::equal(a.bytes(), b.bytes()); }

// Holds what one validation needs at every step.
class Validator {
 public:
  Validator(Session& session, const Target& target, const CaseMaker& cases, const Reference& reference,
            const ValidateOptions& options)
      : session_(session), target_(target), cases_(cases), reference_(reference), options_(options) {}

  Validation run(const std::vector<Size>& sizes) {
    out_.target = target_.text;
    out_.engine = session_.info();
    out_.criterion = "tolerance";
    for (const Size& size : sizes) {
      note("at " + label(size));
      out_.sizes.push_back(at(size, size == sizes.front()));
      out_.verdict = out_.sizes.size() == 1 ? out_.sizes[0].verdict : worse(out_.verdict, out_.sizes.back().verdict);
      if (stopped(out_.sizes.back())) break;
    }
    if (out_.verdict == Verdict::passed) look_for_vacuity(sizes.front());
    out_.engine = session_.info();
    return std::move(out_);
  }

 private:
  void note(const std::string& what) const {
    if (options_.progress) options_.progress(what);
  }

  static bool stopped(const SizeResult& result) {
    return result.verdict == Verdict::crashed || result.verdict == Verdict::timed_out ||
           result.verdict == Verdict::out_of_memory;
  }

  SizeResult at(const Size& size, bool example) {
    SizeResult result;
    result.axes = size;
    auto metrics = compared(size, example, result);
    if (!metrics) {
      result.error = metrics.error();
      // A model that refuses an input of a size that it was to take is wrong at that size.
      result.verdict = result.error->code == "bad_input" ? Verdict::mismatch : verdict_of(*result.error);
      return result;
    }
    result.metrics = std::move(*metrics);
    result.verdict = result.metrics.verdict;
    return result;
  }

  Result<Comparison> compared(const Size& size, bool example, SizeResult& result) {
    PW_TRY(question, cases_(size, 0));
    auto truth = reference_(question, "fp32");
    if (!truth) return fail(as_reference_failure(truth.error()));
    if (example) find_noise_floor(question, *truth);
    PW_TRY(answer, session_.run(question.inputs));
    Comparison comparison = compare(answer.outputs, *truth, options_.policy);
    if (example) remember_vacuity(answer.outputs);
    if (target_.reduced() && only_out_of_tolerance(comparison) && (example || comparison.verdict != Verdict::passed))
      judge_by_drift(question, *truth, example, comparison, result);
    return comparison;
  }

  void find_noise_floor(const Case& question, const Tensors& truth) {
    auto exact = reference_(question, "fp64");
    if (!exact) return;
    Tensors widened;
    for (const auto& [name, tensor] : truth)
      widened.push_back({name, is_float(tensor.dtype()) ? converted(tensor, Dtype::f64) : tensor});
    const Comparison difference = compare(widened, *exact, options_.policy);
    NoiseFloor floor;
    floor.method = "the reference in fp32 against fp64";
    for (const OutputMetrics& output : difference.outputs) {
      floor.max_abs = std::max(floor.max_abs, output.max_abs);
      floor.rmse = std::max(floor.rmse, output.rmse);
      floor.cosine = std::min(floor.cosine, output.cosine);
    }
    out_.noise_floor = floor;
  }

  void judge_by_drift(const Case& question, const Tensors& truth, bool example, Comparison& comparison,
                      SizeResult& result) {
    note("PyTorch at " + target_.precision + ", " + label(question.size));
    auto rounded = reference_(question, target_.precision);
    if (!rounded) return;
    const double floor = out_.noise_floor ? 2 * out_.noise_floor->rmse : 0;  // two exact runs may each be this far off
    const Drift drift =
        drift_between(comparison, compare(*rounded, truth, options_.policy), floor, options_.drift_limit);
    if (example) {
      out_.drift = drift;
      out_.criterion = "drift";
    }
    result.drift_ratio = drift.ratio;
    comparison.verdict = drift.verdict == "wrong_engine" ? Verdict::mismatch : Verdict::passed;
  }

  void remember_vacuity(const Tensors& outputs) {
    for (const auto& [name, tensor] : outputs) first_.push_back({name, tensor.clone()});
  }

  void look_for_vacuity(const Size& size) {
    note("with a different input");
    auto other = cases_(size, 1);
    if (!other) return;
    auto answer = session_.run(other->inputs);
    if (!answer) return;
    for (const auto& [name, tensor] : answer->outputs) {
      const Tensor* before = find(first_, name);
      if (constant(tensor))
        out_.vacuous_outputs.push_back(name + ": constant");
      else if (before != nullptr && same_bytes(*before, tensor))
        out_.vacuous_outputs.push_back(name + ": the same for a different input");
      else if (saturated(tensor))
        out_.vacuous_outputs.push_back(name + ": saturated");
    }
    out_.vacuous = !out_.vacuous_outputs.empty();
    if (out_.vacuous) out_.verdict = Verdict::vacuous;
  }

  Session& session_;
  const Target& target_;
  const CaseMaker& cases_;
  const Reference& reference_;
  const ValidateOptions& options_;
  Validation out_;
  Tensors first_;  // outputs at the example's size
};

}  // namespace

CaseMaker generated_cases(ModelInputs inputs, std::uint64_t seed, std::optional<Tensors> recorded) {
  auto known = std::make_shared<std::map<std::string, Case>>();
  if (recorded) known->emplace(key_of(inputs.example(), 0), Case{inputs.example(), 0, *recorded});
  return [inputs = std::move(inputs), seed, known](const Size& size, std::uint64_t index) -> Result<Case> {
    const std::string key = key_of(size, index);
    if (const auto it = known->find(key); it != known->end()) return it->second;
    PW_TRY(tensors, inputs.generate(size, seed, index));
    return known->emplace(key, Case{size, index, tensors}).first->second;
  };
}

Reference remembered(Reference reference) {
  auto known = std::make_shared<std::map<std::string, Result<Tensors>>>();
  return
      [reference = std::move(reference), known](const Case& question, const std::string& precision) -> Result<Tensors> {
        const std::string key = key_of(question.size, question.index) + precision;
        if (const auto it = known->find(key); it != known->end()) return it->second;
        return known->emplace(key, reference(question, precision)).first->second;
      };
}

Result<Reference> unoptimised_reference(const Model& model, int threads, const Isolation& isolation) {
  CompileOptions plain{{"onnxruntime", "fp32", "", "cpu", "onnxruntime:fp32"}, threads, "off", {}, {}};
  PW_TRY(exact, open_session(model, plain, isolation));
  std::shared_ptr<Session> session = std::move(exact);
  return Reference([session](const Case& question, const std::string& precision) -> Result<Tensors> {
    if (precision != "fp32")
      return fail({Fault::gate, "reference", "unsupported", "an ONNX file has no reference at " + precision, "",
                   "give the PyTorch source", ""});
    PW_TRY(answer, session->run(question.inputs));
    Tensors outputs;
    for (const auto& [name, tensor] : answer.outputs) outputs.push_back({name, tensor.clone()});
    return outputs;
  });
}

Validation validate(Session& session, const Target& target, const std::vector<Size>& sizes, const CaseMaker& cases,
                    const Reference& reference, const ValidateOptions& options) {
  return Validator(session, target, cases, reference, options).run(sizes);
}

}  // namespace portwright
