// portwright run: a model or a compiled engine on the arrays of one .npz.
#include <fmt/format.h>

#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "engine/records.h"
#include "portwright/engine.h"
#include "portwright/npz.h"
#include "report/format.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

struct RunOptions {
  std::string subject, inputs, output, target;
  IsolationOptions isolation;
};

// An engine's folder says itself what it was compiled for; a model takes --target.
Result<std::unique_ptr<Session>> open_subject(const RunOptions& options, const Isolation& limits) {
  CompileOptions compile;
  compile.threads = options.isolation.threads;
  if (!fs::is_directory(options.subject)) {
    PW_TRY(target, parse_target(options.target.empty() ? "onnxruntime:fp32" : options.target));
    compile.target = target;
    PW_TRY(model, Model::load(options.subject));
    return open_session(model, compile, limits);
  }
  if (!options.target.empty())
    return fail({Fault::usage, "options", "bad_option",
                 options.subject + " is already compiled; --target does not apply", "--target",
                 "leave --target out, or name the model instead of the engine", ""});
  PW_TRY(saved, read_json(fs::path(options.subject) / "engine.json"));
  PW_TRY(target,
         parse_target(saved.value("engine", std::string()) + ":" + saved.value("precision_asked", std::string("fp32")) +
                      "@" + saved.value("device_asked", std::string("cpu"))));
  compile.target = target;
  return open_saved(options.subject, compile, limits);
}

Result<ExitCode> run_subject(Console& console, const RunOptions& options) {
  PW_TRY(limits, isolation(options.isolation));
  PW_TRY(inputs, read_npz(options.inputs));
  Progress& progress = console.progress();
  progress.now("compiling " + options.subject);
  PW_TRY(session, open_subject(options, limits));
  progress.now("running " + options.subject);
  PW_TRY(result, session->run(inputs));
  PW_CHECK(write_npz(options.output, result.outputs));
  const EngineInfo& info = session->info();

  Json out = document("run");
  out["engine"] = to_json(info);
  out["seconds"] = result.seconds;
  out["outputs"] = Json::array();
  std::string text;
  for (const auto& [name, tensor] : result.outputs) {
    out["outputs"].push_back(Json{{"name", name}, {"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape()}});
    text += fmt::format("{}  {}{}\n", name, to_string(tensor.dtype()), to_string(tensor.shape()));
  }
  out["file"] = options.output;
  console.document(out);
  console.print(text + fmt::format("{} on {}, {}, in {}\n{}\n", info.name, info.device, info.precision_effective,
                                   format_ms(result.seconds * 1000), console.paint(Tone::strong, options.output)));
  return ExitCode::passed;
}

}  // namespace

void add_run(Program& program) {
  const auto options = std::make_shared<RunOptions>();
  Verb verb = program.add({"run",
                           "Run a model or a compiled engine on the arrays of an .npz",
                           {"portwright run model.onnx --inputs inputs.npz -o outputs.npz --target openvino:bf16",
                            "portwright run engine/ --inputs inputs.npz -o outputs.npz"}},
                          [options](Console& console) { return run_subject(console, *options); });
  verb.argument("MODEL_OR_ENGINE", options->subject, "An ONNX file, or a folder that compile wrote");
  verb.option("-i,--inputs", options->inputs, "IN.npz", "All inputs by name", Need::required);
  verb.option("-o,--output", options->output, "OUT.npz", "Where the outputs go", Need::required);
  verb.option("-t,--target", options->target, "ENGINE[:PRECISION][@DEVICE]",
              "For a model: where it runs; onnxruntime:fp32 if not given");
  add_options(verb, options->isolation);
}

}  // namespace portwright
