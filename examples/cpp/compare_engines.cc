// Loads a model, runs it on two engines with the same inputs, and says whether they agree.
//   compare_engines MODEL.onnx
#include <cstdio>

#include "portwright/compare.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"
#include "portwright/model.h"
#include "portwright/verdict.h"

using namespace portwright;

namespace {

Result<Tensors> run(const Model& model, const char* name, const Tensors& inputs) {
  CompileOptions options;
  PW_TRY(target, parse_target(name));
  options.target = target;
  Isolation isolation;
  isolation.in_process = true;
  PW_TRY(session, open_session(model, options, isolation));
  PW_TRY(answer, session->run(inputs));
  Tensors outputs;  // what a session gives is valid while the session lives
  for (const auto& [output, tensor] : answer.outputs) outputs.push_back({output, tensor.clone()});
  return outputs;
}

Result<Verdict> agreement(const char* file) {
  PW_TRY(model, Model::load(file));
  PW_TRY(described, inputs_of(model, {}, {}));
  PW_TRY(inputs, described.generate(described.example(), /*seed=*/0));
  PW_TRY(reference, run(model, "onnxruntime:fp32", inputs));
  PW_TRY(actual, run(model, "openvino:fp32", inputs));
  const Comparison comparison = compare(actual, reference, policy_for("fp32"));
  for (const OutputMetrics& output : comparison.outputs)
    std::printf("%-20s %-10s max abs %.3g, cosine %.9f\n", output.name.c_str(),
                std::string(to_string(output.verdict)).c_str(), output.max_abs, output.cosine);
  return comparison.verdict;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: compare_engines MODEL.onnx\n");
    return 2;
  }
  const auto verdict = agreement(argv[1]);
  if (!verdict) {
    std::fprintf(stderr, "error: %s\nhint: %s\n", verdict.error().message.c_str(), verdict.error().hint.c_str());
    return 1;
  }
  return *verdict == Verdict::passed ? 0 : 1;
}
