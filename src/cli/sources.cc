#include "cli/sources.h"

namespace portwright {

void add_options(Verb& verb, SourceVerbOptions& options) {
  add_options(verb, options.inputs);
  add_options(verb, options.exporting);
  add_options(verb, options.python);
  add_options(verb, options.isolation);
}

Result<SourceOptions> source_options(const SourceVerbOptions& options) {
  PW_TRY(specs, input_specs(options.inputs));
  PW_TRY(axes, dynamic_axes(options.inputs));
  PW_TRY(limits, isolation(options.isolation));
  PW_CHECK(check(options.exporting));
  SourceOptions out;
  out.source = options.source;
  out.seed = options.inputs.seed;
  out.python = find_python(options.python.interpreter);
  out.inputs = specs;
  out.dynamic = axes;
  out.limits = {limits.timeout, limits.memory_bytes};
  out.threads = options.isolation.threads;
  return out;
}

Result<Exported> export_source(const SourceOptions& source, const ExportOptions& exporting,
                               const std::filesystem::path& file, Progress& progress) {
  progress.now("opening " + source.source);
  PW_TRY(opened, Source::open(source));
  const ModelInputs& inputs = opened->inputs();
  // A factory's own tensors are used where nobody asked for others.
  const bool asked = !source.inputs.empty() || !source.dynamic.empty();
  Tensors example;
  if (opened->example() && !asked) {
    example = *opened->example();
  } else {
    PW_TRY(generated, inputs.generate(inputs.example(), source.seed));
    example = generated;
  }
  progress.now("exporting " + source.source);
  PW_TRY(result, opened->export_onnx({file, exporting.exporter, exporting.opset, example}));
  return Exported{std::move(opened), result, std::move(example)};
}

}  // namespace portwright
