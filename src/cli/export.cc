// portwright export: a PyTorch model to ONNX, with its inputs and what PyTorch makes of them.
#include <fmt/format.h>

#include "base/files.h"
#include "cli/program.h"
#include "cli/sources.h"
#include "portwright/npz.h"
#include "report/format.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

struct ExportVerbOptions {
  SourceVerbOptions source;
  std::string folder;
};

std::string human(const Console& console, const fs::path& folder, const ExportResult& result) {
  std::string out =
      fmt::format("opset {}, IR version {}, exporter {}\n", result.opset_produced, result.ir_version, result.exporter);
  if (result.opset_asked && *result.opset_asked != result.opset_produced)
    out += console.paint(Tone::warn, fmt::format("opset {} was asked for\n", *result.opset_asked));
  out += fmt::format("inputs {}; outputs {}; dynamic axes {}\n", joined(result.inputs), joined(result.outputs),
                     result.dynamic_axes.empty() ? "none" : joined(result.dynamic_axes));
  if (!result.static_axes.empty())
    out += console.paint(Tone::warn, "asked to be dynamic, came out static: " + joined(result.static_axes)) + "\n";
  for (const char* file : {"model.onnx", "inputs.npz", "reference.npz", "export.json"})
    out += console.paint(Tone::strong, (folder / file).string()) + "\n";
  return out;
}

Result<ExitCode> export_model(Console& console, const ExportVerbOptions& options) {
  PW_TRY(source, source_options(options.source));
  const fs::path folder = options.folder;
  PW_CHECK(make_folders(folder));
  Progress& progress = console.progress();
  PW_TRY(exported, export_source(source, options.source.exporting, folder / "model.onnx", progress));
  progress.now("running " + source.source + " in PyTorch");
  PW_TRY(reference, exported.source->forward(exported.inputs, "fp32"));
  PW_CHECK(write_npz(folder / "inputs.npz", exported.inputs));
  PW_CHECK(write_npz(folder / "reference.npz", reference));

  Json out = document("export");
  out["source"] = source.source;
  out["source_digest"] = exported.source->digest();
  out["seed"] = source.seed;
  out.update(to_json(exported.result));
  out["versions"] = exported.source->versions();
  PW_CHECK(write_json(folder / "export.json", out));
  out["folder"] = folder.string();
  console.document(out);
  console.print(human(console, folder, exported.result));
  return ExitCode::passed;
}

}  // namespace

void add_export(Program& program) {
  const auto options = std::make_shared<ExportVerbOptions>();
  Verb verb = program.add({"export",
                           "Export a PyTorch model: model.onnx, inputs.npz, reference.npz and export.json",
                           {"portwright export torchvision:resnet18 --dynamic x.0=batch:1..8..32 -o out",
                            "portwright export net.py:make --input x:1x3x64x64 --opset 18 -o out"}},
                          [options](Console& console) { return export_model(console, *options); });
  verb.argument("SOURCE", options->source.source, "PLUGIN:NAME, such as torchvision:resnet18, or file.py:factory");
  verb.option("-o,--output", options->folder, "DIR", "Folder for what is written", Need::required);
  add_options(verb, options->source);
}

}  // namespace portwright
