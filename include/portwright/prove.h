// Two models, one behaviour: both are run on the same inputs by ONNX Runtime without optimisation.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "portwright/compare.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"
#include "portwright/simplify.h"

namespace portwright {

struct ProofOptions {
  std::vector<InputSpec> inputs;  // instead of what the model says
  std::vector<DynamicAxis> dynamic;
  std::uint64_t seed = 0;
  int cases = 2;                      // different values at the example's size; one at every other size
  Policy policy{1e-4, 1e-4, "fp32"};  // folding moves roundings, nothing more
  int threads = 0;
  Isolation isolation;
  std::function<void(const std::string&)> progress;
};

// A size at which the original itself cannot run proves nothing and is passed over; when there is no other, or nothing
// to compare, the verdict is not `passed` but what stood in the way.
Prove proof_by_running(ProofOptions options);

// The outputs of one run by ONNX Runtime without optimisation, as copies.
Result<Tensors> run_plainly(const Model& model, const Tensors& inputs, int threads, const Isolation& isolation);

// Folds constants with ONNX Runtime.
Evaluate evaluation_by_onnxruntime(int threads, Isolation isolation);

}  // namespace portwright
