// portwright extract: a valid piece of a model, with the inputs that it gets inside of it.
#include "portwright/extract.h"

#include <fmt/format.h>

#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "portwright/npz.h"
#include "portwright/prove.h"
#include "report/format.h"

namespace portwright {
namespace {

struct ExtractVerbOptions {
  std::string model, out;
  std::vector<std::string> from, to;
  bool no_inputs = false;
  InputOptions inputs;
  IsolationOptions isolation;
};

// What the whole model computes for the inputs of the piece, at the example's size.
Result<Tensors> recorded_inputs(const Model& model, const Piece& piece, const ExtractVerbOptions& options) {
  PW_TRY(specs, input_specs(options.inputs));
  PW_TRY(axes, dynamic_axes(options.inputs));
  PW_TRY(limits, isolation(options.isolation));
  PW_TRY(declared, inputs_of(model, specs, axes));
  PW_TRY(inputs, declared.generate(declared.example(), options.inputs.seed));
  Tensors out;
  for (const std::string& name : piece.inputs)
    if (const Tensor* given = find(inputs, name)) out.push_back({name, *given});
  if (!piece.before) return out;
  PW_TRY(computed, run_plainly(*piece.before, inputs, options.isolation.threads, limits));
  for (NamedTensor& tensor : computed) out.push_back(std::move(tensor));
  return out;
}

Result<ExitCode> extract_file(Console& console, const ExtractVerbOptions& options) {
  Progress& progress = console.progress();
  progress.now("loading " + options.model);
  PW_TRY(model, Model::load(options.model));
  PW_TRY(piece, extract(model, options.from, options.to));
  const std::string arrays = std::filesystem::path(options.out).replace_extension(".inputs.npz").string();
  if (!options.no_inputs) {
    progress.now("recording inputs");
    PW_TRY(inputs, recorded_inputs(model, piece, options));
    PW_CHECK(write_npz(arrays, inputs));
  }
  PW_CHECK(piece.model.save(options.out, piece.model.stored_as()));
  Json out = document("extract");
  out["verdict"] = to_string(Verdict::passed);
  out["model"] = options.model;
  out["output"] = options.out;
  out["inputs_file"] = options.no_inputs ? Json() : Json(arrays);
  out["inputs"] = piece.inputs;
  out["outputs"] = piece.outputs;
  out["nodes"] = piece.nodes;
  console.document(out);
  console.print(fmt::format("{} from {} to {}\n{}\n", plural(piece.nodes, "node"), fmt::join(piece.inputs, ", "),
                            fmt::join(piece.outputs, ", "), options.out + (options.no_inputs ? "" : "\n" + arrays)));
  return ExitCode::passed;
}

}  // namespace

void add_extract(Program& program) {
  const auto options = std::make_shared<ExtractVerbOptions>();
  Verb verb = program.add({"extract",
                           "Cut a piece out of a model, by tensor names, with the inputs that it gets there",
                           {"portwright extract model.onnx --from conv1 --to relu4 -o piece.onnx",
                            "portwright extract model.onnx --to '*attention*' -o head.onnx --no-inputs"}},
                          [options](Console& console) { return extract_file(console, *options); });
  verb.argument("MODEL", options->model, "An ONNX file");
  verb.option("--from", options->from, "TENSOR",
              "Where the piece starts: a name or a pattern with * and ?; may be repeated; default: the model's inputs");
  verb.option("--to", options->to, "TENSOR", "Where it ends; may be repeated; default: the model's outputs");
  verb.option("-o,--output", options->out, "FILE", "Where the piece goes; its inputs go beside it, as .inputs.npz",
              Need::required);
  verb.flag("--no-inputs", options->no_inputs, "Do not run the model to record the inputs of the piece");
  add_options(verb, options->inputs);
  add_options(verb, options->isolation);
}

}  // namespace portwright
