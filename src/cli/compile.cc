// portwright compile: a model to an engine that is kept.
#include <fmt/format.h>

#include "base/files.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "engine/records.h"
#include "portwright/engine.h"
#include "report/format.h"

namespace portwright {
namespace {

struct CompileVerbOptions {
  std::string model, folder;
  TargetOptions targets;
  IsolationOptions isolation;
  std::string optimization = "all";
};

std::string human(const Console& console, const std::string& folder, const EngineInfo& info, double seconds) {
  std::string out =
      fmt::format("{} {} on {}, compiled in {}\n", info.name, info.version, info.device, format_seconds(seconds));
  out += fmt::format("precision asked {}, used {}", info.precision_asked, info.precision_effective);
  if (info.default_precision != info.precision_effective && !info.default_precision.empty())
    out += fmt::format(" (the engine's own default here: {})", info.default_precision);
  return out + "\n" + console.paint(Tone::strong, folder) + "\n";
}

Result<ExitCode> compile_model(Console& console, const CompileVerbOptions& options) {
  PW_TRY(target, single_target(options.targets));
  PW_TRY(limits, isolation(options.isolation));
  PW_TRY(model, Model::load(options.model));
  PW_CHECK(make_folders(options.folder));
  Progress& progress = console.progress();
  progress.now("compiling " + options.model + " for " + target.text);
  CompileOptions compile;
  compile.target = target;
  compile.threads = options.isolation.threads;
  compile.optimization = options.optimization;
  compile.save_to = options.folder;
  PW_TRY(session, open_session(model, compile, limits));
  Json out = document("engine");
  PW_TRY(saved, read_json(std::filesystem::path(options.folder) / "engine.json"));
  out.update(saved);
  out["folder"] = options.folder;
  out["compile_s"] = session->compile_seconds;
  console.document(out);
  console.print(human(console, options.folder, session->info(), session->compile_seconds));
  return ExitCode::passed;
}

}  // namespace

void add_compile(Program& program) {
  const auto options = std::make_shared<CompileVerbOptions>();
  Verb verb = program.add({"compile",
                           "Compile a model to an engine in a folder, with engine.json",
                           {"portwright compile model.onnx --target openvino:fp32 -o engine",
                            "portwright compile model.onnx --target onnxruntime:fp32 --threads 4 -o engine --json"}},
                          [options](Console& console) { return compile_model(console, *options); });
  verb.argument("MODEL", options->model, "An ONNX file");
  add_options(verb, options->targets);
  verb.option("-o,--output", options->folder, "DIR", "Folder for the engine", Need::required);
  verb.choice("--optimization", options->optimization, {"off", "basic", "extended", "all"}, "ONNX Runtime's level");
  add_options(verb, options->isolation);
}

}  // namespace portwright
