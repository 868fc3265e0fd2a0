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

// One question, put to the target and to the reference alike.
struct Case {
  Size size;
  std::uint64_t index = 0;  // 0 is the recorded one; another index gives different values
  Tensors inputs;
};
// Makes the inputs of a case.
using CaseMaker = std::function<Result<Case>(const Size& size, std::uint64_t index)>;
// Generated from the specs, and kept for the next target. `recorded` is the case of the example's size and index 0.
CaseMaker generated_cases(ModelInputs inputs, std::uint64_t seed, std::optional<Tensors> recorded);

// The truth. fp32 is what outputs are compared with; fp64 gives the noise floor; fp16 and bf16 what a precision itself
// costs. An error with code "unsupported" means that it cannot tell at that precision.
using Reference = std::function<Result<Tensors>(const Case& question, const std::string& precision)>;
// The same answers, each asked only once.
Reference remembered(Reference reference);
// The reference of a bare ONNX file: ONNX Runtime without optimisation; its noise floor is all optimisations.
Result<Reference> unoptimised_reference(const Model& model, int threads, const Isolation& isolation);

struct ValidateOptions {
  Policy policy;             // of the target's precision
  double drift_limit = 2.0;  // highest ratio of an honest loss
  std::function<void(const std::string&)> progress;
};

struct SizeResult {
  Size axes;
  Verdict verdict = Verdict::not_run;
  Comparison metrics;
  std::optional<double> drift_ratio;  // when the verdict of this size rests on it
  std::optional<Error> error;         // when the target or the reference failed at this size
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

// Runs the session at every size against the reference; the first size is the example's.
Validation validate(Session& session, const Target& target, const std::vector<Size>& sizes, const CaseMaker& cases,
                    const Reference& reference, const ValidateOptions& options);

// Every tensor of the model, each marked as an output, from a session with these options; by name.
Result<Tensors> all_tensors(const Model& model, const CompileOptions& options, const Tensors& inputs,
                            const Isolation& isolation);
// The same from ONNX Runtime at fp32 without optimisation.
Result<Tensors> unoptimised_tensors(const Model& model, const Tensors& inputs, const Isolation& isolation);

struct Culprit {
  NodeOrigin node;
  std::string tensor;
  OutputMetrics metrics;
};
// The first node, in graph order, one of whose outputs in `actual` leaves that in `truth`. Tensors that only one of
// them has are passed over, and so are those of another dtype or shape when `strict` is off: names may then mean two
// things.
std::optional<Culprit> first_difference(const Model& model, const Tensors& actual, const Tensors& truth,
                                        const Policy& policy, bool strict = true);
// The first node whose fp32 output does not fit fp16 (|x| > 65504), found by an unoptimised fp32 run.
Result<std::optional<Culprit>> first_overflow(const Model& model, const Tensors& inputs, const Isolation& isolation);

}  // namespace portwright
