// Is the target right? Every size, every output, with vacuity, noise floor and, at reduced precision, drift.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "portwright/compare.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"

namespace portwright {

// What the truth is asked for. fp32 is the truth; fp64 gives the noise floor; fp16 and bf16 what a precision itself
// costs.
using Reference = std::function<Result<Tensors>(const Tensors& inputs, const std::string& precision)>;

struct ValidateOptions {
  Policy policy;             // of the target's precision
  double drift_limit = 2.0;  // highest ratio of an honest loss
  std::uint64_t seed = 0;
  std::optional<Tensors> recorded;  // inputs of the example's size to use instead of generated ones
  std::function<void(const std::string&)> progress;
};

struct SizeResult {
  Size axes;
  Verdict verdict = Verdict::not_run;
  Comparison metrics;
  std::optional<Error> error;  // when the target or the reference failed at this size
};

struct NoiseFloor {
  double max_abs = 0, rmse = 0, cosine = 1;
  std::string method;  // "torch fp32 against fp64", ...
};

// Drift: errors are RMSE against the fp32 truth, of the output with the largest ratio.
struct Drift {
  double ratio = 0, torch_error = 0, engine_error = 0;
  std::string output;
  std::string verdict;  // "honest_loss", "wrong_engine", "no_loss"
};

struct Validation {
  Verdict verdict = Verdict::not_run;
  std::string criterion;  // "tolerance" or "drift": which of the two the verdict rests on
  std::string target;
  EngineInfo engine;
  std::vector<SizeResult> sizes;
  std::optional<NoiseFloor> noise_floor;
  std::optional<Drift> drift;
  bool vacuous = false;
  std::vector<std::string> vacuous_outputs;  // "y: constant", "y: the same for a different input"
  std::optional<Error> error;                // when nothing could be compared
};

// Runs the session at every size of `inputs` against the reference.
Validation validate(Session& session, const Target& target, const ModelInputs& inputs, const Reference& reference,
                    const ValidateOptions& options);

// The first node, in graph order, whose float output on the target leaves an unoptimised ONNX Runtime run, both on the
// same inputs, with every tensor marked as an output.
struct Culprit {
  NodeOrigin node;
  std::string tensor;
  OutputMetrics metrics;
};
Result<std::optional<Culprit>> first_difference(const Model& model, const CompileOptions& target, const Tensors& inputs,
                                                const Policy& policy, const Isolation& isolation);
// The first node whose fp32 output does not fit fp16 (|x| > 65504), found by an unoptimised fp32 run.
Result<std::optional<Culprit>> first_overflow(const Model& model, const Tensors& inputs, const Isolation& isolation);

}  // namespace portwright
