// portwright validate: is a target right on an existing model, at every size.
#include "portwright/validate.h"

#include <fmt/format.h>

#include "cli/metrics_table.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "portwright/npz.h"
#include "report/record.h"
#include "verify/validation_record.h"

namespace portwright {
namespace {

struct ValidateVerbOptions {
  std::string model, inputs_file, reference_file;
  TargetOptions targets;
  InputOptions inputs;
  ToleranceOptions tolerance;
  IsolationOptions isolation;
  double drift_limit = 2.0;
};

// What the target is asked and what the answer is measured with.
struct Question {
  std::vector<Size> sizes;
  CaseMaker cases;
  Reference reference;
  std::string reference_text;
};

// Shapes and dtypes of recorded arrays, where no --input says otherwise.
void take_shapes(const Tensors& recorded, std::vector<InputSpec>& specs) {
  for (const auto& [name, tensor] : recorded) {
    const auto given =
        std::find_if(specs.begin(), specs.end(), [&n = name](const InputSpec& spec) { return spec.name == n; });
    if (given == specs.end()) specs.push_back({name, tensor.shape(), tensor.dtype(), ""});
  }
}

Reference recorded_reference(Tensors outputs) {
  return [outputs = std::move(outputs)](const Case& question, const std::string& precision) -> Result<Tensors> {
    if (precision == "fp32" && question.index == 0) return outputs;
    return fail({Fault::gate, "reference", "unsupported", "the recorded reference has one case, in fp32", "", "", ""});
  };
}

Result<Question> make_question(const ValidateVerbOptions& options, const Model& model, const Isolation& limits) {
  PW_TRY(specs, input_specs(options.inputs));
  PW_TRY(axes, dynamic_axes(options.inputs));
  std::optional<Tensors> recorded;
  if (!options.inputs_file.empty()) {
    PW_TRY(arrays, read_npz(options.inputs_file));
    take_shapes(arrays, specs);
    recorded = std::move(arrays);
  }
  PW_TRY(inputs, inputs_of(model, specs, axes));
  Question question{inputs.sizes(), generated_cases(inputs, options.inputs.seed, recorded), {}, ""};
  if (options.reference_file.empty()) {
    PW_TRY(reference, unoptimised_reference(model, options.isolation.threads, limits));
    question.reference = remembered(std::move(reference));
    question.reference_text = "ONNX Runtime without optimisation: no PyTorch reference was given";
    return question;
  }
  if (!recorded)
    return fail({Fault::usage, "options", "bad_option", "--reference needs the inputs that it was computed from",
                 "--reference", "give them with --inputs IN.npz", ""});
  PW_TRY(outputs, read_npz(options.reference_file));
  question.sizes = {inputs.example()};
  question.reference = recorded_reference(std::move(outputs));
  question.reference_text = options.reference_file;
  return question;
}

Result<Validation> validate_target(const ValidateVerbOptions& options, const Model& model, const Target& target,
                                   const Question& question, const Isolation& limits, Progress& progress) {
  ValidateOptions how;
  PW_TRY(tolerance, policy(options.tolerance, target.precision));
  how.policy = tolerance;
  how.drift_limit = options.drift_limit;
  how.progress = [&](const std::string& what) { progress.now(target.text + ": " + what); };
  progress.now(target.text + ": compiling");
  CompileOptions compile;
  compile.target = target;
  compile.threads = options.isolation.threads;
  auto session = open_session(model, compile, limits);
  if (session) return validate(**session, target, question.sizes, question.cases, question.reference, how);
  if (session.error().fault == Fault::usage || session.error().fault == Fault::input) return fail(session.error());
  Validation failed;  // a target that does not compile has a verdict, too
  failed.target = target.text;
  failed.verdict = verdict_of(session.error());
  failed.error = session.error();
  return failed;
}

std::string size_text(const Size& size) {
  std::string out;
  for (const auto& [symbol, value] : size) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", symbol, value);
  return out.empty() ? "as given" : out;
}

std::string human(const Console& console, const Validation& validation, const std::string& reference) {
  std::vector<Labelled> metrics;
  std::string errors;
  for (const SizeResult& size : validation.sizes) {
    metrics.push_back({size_text(size.axes), &size.metrics});
    if (size.error) errors += size_text(size.axes) + ": " + size.error->message + "\n";
  }
  const EngineInfo& engine = validation.engine;
  std::string out = console.paint(Tone::strong, validation.target);
  if (!engine.name.empty())
    out += fmt::format("  {} {} on {}, {}", engine.name, engine.version, engine.device, engine.precision_effective);
  if (!engine.name.empty() && engine.precision_asked != engine.precision_effective)
    out += console.paint(
        Tone::warn, fmt::format("\n{} was asked for, {} was used", engine.precision_asked, engine.precision_effective));
  out += "\nreference: " + reference + "\n" + metrics_table(console, metrics) + errors;
  const TargetRow told = read_validation(to_json(validation));
  for (const std::string* sentence : {&told.drift, &told.noise_floor})
    if (!sentence->empty()) out += *sentence + "\n";
  for (const std::string& line : validation.vacuous_outputs) out += "says nothing about correctness: " + line + "\n";
  std::string why = validation.criterion.empty() ? "" : "by " + validation.criterion;
  if (validation.error) why = validation.error->message;
  out += verdict_line(console, validation.verdict, why);
  if (validation.error && !validation.error->hint.empty()) out += "hint: " + validation.error->hint + "\n";
  return out;
}

Result<ExitCode> validate_model(Console& console, const ValidateVerbOptions& options) {
  PW_TRY(target, single_target(options.targets));
  PW_TRY(limits, isolation(options.isolation));
  PW_TRY(model, Model::load(options.model));
  Progress& progress = console.progress();
  progress.now("preparing the reference");
  PW_TRY(question, make_question(options, model, limits));
  PW_TRY(validation, validate_target(options, model, target, question, limits, progress));
  Json out = to_json(validation);
  out["model"] = options.model;
  out["reference"] = question.reference_text;
  console.document(out);
  console.print(human(console, validation, question.reference_text));
  return exit_code(validation.verdict);
}

}  // namespace

void add_validate(Program& program) {
  const auto options = std::make_shared<ValidateVerbOptions>();
  Verb verb = program.add(
      {"validate",
       "Prove a target right on a model: every output, at every size",
       {"portwright validate model.onnx --target openvino:fp32 --inputs inputs.npz --reference reference.npz",
        "portwright validate model.onnx --target onnxruntime:fp32 --dynamic x.0=batch:1..8..32"}},
      [options](Console& console) { return validate_model(console, *options); });
  verb.argument("MODEL", options->model, "An ONNX file");
  add_options(verb, options->targets);
  verb.option("-i,--inputs", options->inputs_file, "IN.npz", "Inputs of the example's size; generated if not given");
  verb.option("-r,--reference", options->reference_file, "OUT.npz",
              "What PyTorch made of these inputs; ONNX Runtime without optimisation if not given");
  add_options(verb, options->inputs);
  add_options(verb, options->tolerance);
  verb.option("--drift-limit", options->drift_limit, "RATIO",
              "Highest error, in multiples of PyTorch's own at that precision, that is honest loss");
  add_options(verb, options->isolation);
}

}  // namespace portwright
