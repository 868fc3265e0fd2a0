// portwright convert-opset: another opset, proven equal, or refused.
#include <fmt/format.h>

#include "cli/metrics_table.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "portwright/prove.h"
#include "report/format.h"
#include "rewrite/records.h"

namespace portwright {
namespace {

struct ConvertVerbOptions {
  std::string model, out;
  std::optional<std::int64_t> opset;
  InputOptions inputs;
  IsolationOptions isolation;
};

Result<ExitCode> convert(Console& console, const ConvertVerbOptions& options) {
  Progress& progress = console.progress();
  progress.now("converting " + options.model);
  PW_TRY(model, Model::load(options.model));
  PW_TRY(how, proof_options(options.inputs, options.isolation, progress));
  PW_TRY(converted, model.with_opset(*options.opset));
  PW_TRY(proof, proof_by_running(std::move(how))(model, converted));
  const bool equal = proof.verdict == Verdict::passed;
  if (equal) PW_CHECK(converted.save(options.out, converted.stored_as()));
  Json out = document("convert-opset");
  out["verdict"] = to_string(proof.verdict);
  out["model"] = options.model;
  out["output"] = equal ? Json(options.out) : Json();
  out["opset_before"] = model.opset();
  out["opset_after"] = converted.opset();
  out["proof"] = to_json(proof);
  console.document(out);
  const std::string what = fmt::format("opset {} to {}", model.opset(), converted.opset());
  console.print(verdict_line(
      console, proof.verdict,
      equal ? fmt::format("{}; equal on {} inputs, max abs {}; {}", what, proof.inputs, format_error(proof.max_abs),
                          options.out)
            : fmt::format("{} changes what the model computes: {}; nothing was written", what, proof.reason)));
  return exit_code(proof.verdict);
}

}  // namespace

void add_convert_opset(Program& program) {
  const auto options = std::make_shared<ConvertVerbOptions>();
  Verb verb = program.add({"convert-opset",
                           "Convert a model to another opset and prove that it computes the same, or refuse",
                           {"portwright convert-opset model.onnx --opset 17 -o model17.onnx",
                            "portwright convert-opset model.onnx --opset 13 -o m.onnx --input x:1x3x224x224 --json"}},
                          [options](Console& console) { return convert(console, *options); });
  verb.argument("MODEL", options->model, "An ONNX file");
  verb.option("--opset", options->opset, "N", "The opset of ai.onnx that the result has", Need::required);
  verb.option("-o,--output", options->out, "FILE", "Where the result goes", Need::required);
  add_options(verb, options->inputs);
  add_options(verb, options->isolation);
}

}  // namespace portwright
