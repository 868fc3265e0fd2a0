// The steps build and export: from the source to model.onnx, inputs.npz and reference.npz.
#include "base/digest.h"
#include "base/machine.h"
#include "port/run.h"
#include "portwright/npz.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

Json to_json(const ModelInputs& inputs) {
  Json specs = Json::array(), dynamic = Json::array();
  for (const InputSpec& spec : inputs.specs)
    specs.push_back(
        Json{{"name", spec.name}, {"shape", spec.shape}, {"dtype", to_string(spec.dtype)}, {"values", spec.values}});
  for (const DynamicAxis& axis : inputs.dynamic)
    dynamic.push_back(Json{{"input", axis.input},
                           {"axis", axis.axis},
                           {"symbol", axis.symbol},
                           {"min", axis.min},
                           {"opt", axis.opt},
                           {"max", axis.max}});
  return Json{{"inputs", specs}, {"dynamic", dynamic}};
}

ModelInputs inputs_from(const Json& value) {
  ModelInputs inputs;
  for (const auto& spec : value.at("inputs"))
    inputs.specs.push_back({spec.at("name"), spec.at("shape").get<Shape>(),
                            dtype_from(spec.at("dtype").get<std::string>()).value_or(Dtype::f32), spec.at("values")});
  for (const auto& axis : value.at("dynamic"))
    inputs.dynamic.push_back(
        {axis.at("input"), axis.at("axis"), axis.at("symbol"), axis.at("min"), axis.at("opt"), axis.at("max")});
  return inputs;
}

// The Python versions that a module depends on; asked without importing torch.
Json python_versions(const std::string& python, const fs::path& log, const std::shared_ptr<double>& waited) {
  auto worker = start_python(python, log, {}, waited);
  if (!worker) return Json();
  auto hello = worker->call("hello", Json::object());
  return hello ? hello->value("versions", Json::object()) : Json();
}

std::string file_of(const std::string& source) { return source.substr(0, source.rfind(".py:") + 3); }

}  // namespace

SourceOptions Run::source_options(const std::string& log) const {
  return {options_.source,        options_.seed,    find_python(options_.python),
          options_.inputs,        options_.dynamic, {options_.timeout, options_.memory_bytes},
          folder_ / "logs" / log, waited_,          options_.threads};
}

Result<Source*> Run::source() {
  if (!source_) {
    PW_TRY(opened, Source::open(source_options("python.log")));
    source_ = std::move(opened);
    source_->worker().on_note([this](const std::string& what) { note("", what); });
  }
  return source_.get();
}

Status Run::build() {
  Json on{{"source", options_.source}, {"seed", options_.seed}, {"machine", this_machine().cpu}};
  ModelInputs asked;
  asked.specs = options_.inputs;
  asked.dynamic = options_.dynamic;
  on["asked"] = to_json(asked);
  if (needs_torch()) {
    on["python"] = python_versions(find_python(options_.python), folder_ / "logs" / "python.log", waited_);
    if (options_.source.find(".py:") != std::string::npos)
      on["file"] = digest_file(file_of(options_.source)).value_or("");
  } else {
    PW_TRY(model, Model::load(options_.source));
    PW_TRY(digest, model.digest());
    on["file"] = digest;
  }
  std::optional<Error> refused;  // a wrong source is the user's to correct: no record is made of it
  PW_TRY(record, steps_.step("build", on, "logs/python.log", [&]() -> Result<StepResult> {
    auto body = build_body();
    if (!body && (body.error().fault == Fault::usage || body.error().fault == Fault::environment ||
                  body.error().code == "no_such_file"))
      refused = body.error();
    return body;
  }));
  if (refused) {
    std::error_code ignored;
    fs::remove(folder_ / "steps" / "build.json", ignored);
    fs::remove(folder_ / "port.json", ignored);
    return fail(*refused);
  }
  return record.passed() ? restore_inputs(record) : Status();
}

Result<StepResult> Run::build_body() {
  StepResult step;
  if (is_onnx_source()) return build_from_onnx(std::move(step));
  PW_TRY(opened, source());
  inputs_ = opened->inputs();
  step.result = to_json(inputs_);
  step.result["source_digest"] = opened->digest();
  step.result["python"] = opened->versions();
  step.result["module_class"] = opened->description().value("module_class", std::string());
  step.result["parameters"] = opened->description().value("parameters", std::int64_t{0});
  for (const auto& file : opened->description().value("python_files", Json::array()))
    step.read.push_back(file.get<std::string>());
  const auto fits = [&] {  // a factory's own tensors are used where nobody asked for other sizes
    if (!opened->example()) return false;
    for (const InputSpec& spec : inputs_.at(inputs_.example())) {
      const Tensor* tensor = find(*opened->example(), spec.name);
      if (tensor == nullptr || tensor->shape() != spec.shape) return false;
    }
    return true;
  };
  cases_ = generated_cases(inputs_, options_.seed, fits() ? opened->example() : std::nullopt);
  PW_TRY(example, cases_(inputs_.example(), 0));
  PW_TRY(reference, opened->forward(example.inputs, "fp32"));
  PW_CHECK(write_npz(folder_ / "inputs.npz", example.inputs));
  PW_CHECK(write_npz(folder_ / "reference.npz", reference));
  step.made = {"inputs.npz", "reference.npz"};
  return step;
}

Result<StepResult> Run::build_from_onnx(StepResult step) {
  PW_TRY(model, Model::load(options_.source));
  PW_TRY(inputs, inputs_of(model, options_.inputs, options_.dynamic));
  PW_TRY(digest, model.digest());
  step.result = to_json(inputs);
  step.result["source_digest"] = digest;
  cases_ = generated_cases(inputs, options_.seed, std::nullopt);
  PW_TRY(reference, unoptimised_reference(model, options_.threads, isolation("reference.log")));
  PW_TRY(example, cases_(inputs.example(), 0));
  PW_TRY(outputs, reference(example, "fp32"));
  PW_CHECK(write_npz(folder_ / "inputs.npz", example.inputs));
  PW_CHECK(write_npz(folder_ / "reference.npz", outputs));
  step.made = {"inputs.npz", "reference.npz"};
  return step;
}

// What later steps need of the build, from its record: the same whether it ran now or earlier.
Status Run::restore_inputs(const StepRecord& record) {
  inputs_ = inputs_from(record.result());
  PW_TRY(example, read_npz(folder_ / "inputs.npz"));
  cases_ = generated_cases(inputs_, options_.seed, example);
  reference_ = remembered(
      [this](const Case& question, const std::string& precision) { return ask_reference(question, precision); });
  return {};
}

Result<Tensors> Run::ask_reference(const Case& question, const std::string& precision) {
  if (is_onnx_source()) {
    PW_TRY(model, Model::load(options_.source));
    PW_TRY(plain, unoptimised_reference(model, options_.threads, isolation("reference.log")));
    return plain(question, precision);
  }
  PW_TRY(opened, source());
  return opened->forward(question.inputs, precision);
}

Status Run::export_model() {
  const Json on{{"build", find_step("build")->key},
                {"exporter", options_.exporter},
                {"opset", options_.opset.value_or(0)},
                {"remedies", options_.remedies}};
  PW_TRY(record,
         steps_.step("export", on, "logs/python.log", [&] { return is_onnx_source() ? copy_onnx() : export_body(); }));
  model_ready_ = record.passed();
  return {};
}

Result<StepResult> Run::copy_onnx() {
  PW_TRY(model, Model::load(options_.source));
  const bool small = model.weight_bytes() < kOneFile;
  PW_CHECK(model.save(folder_ / "model.onnx", small ? SaveMode::inlined : SaveMode::external));
  StepResult step;
  made_model(step, "model.onnx");
  const ModelSummary summary = model.summary();
  step.result = Json{{"exporter", Json()},
                     {"opset_asked", Json()},
                     {"opset_produced", model.opset()},
                     {"ir_version", model.ir_version()},
                     {"dynamic_axes", summary.dynamic_axes},
                     {"assumptions", Json::array()},
                     {"static_axes", Json::array()}};
  return step;
}

Result<ExportResult> Run::export_with(const std::string& exporter, const std::string& file) {
  PW_TRY(opened, source());
  PW_TRY(example, cases_(inputs_.example(), 0));
  note("export", "with the " + exporter + " exporter");
  return opened->export_onnx({folder_ / file, exporter, options_.opset, example.inputs});
}

Result<StepResult> Run::export_body() {
  StepResult step;
  auto exported = export_with(options_.exporter, "model.onnx");
  if (!exported) {
    if (exported.error().fault == Fault::environment) return fail(exported.error());
    Issue issue = issue_from(exported.error(), "export", "");
    const std::string other = options_.exporter == "dynamo" ? "torchscript" : "dynamo";
    auto second = options_.remedies ? export_with(other, "model.onnx") : Result<ExportResult>(fail(exported.error()));
    if (second) {
      issue.status = "fixed";
      issue.fix = "exported with the " + other + " exporter instead";
      step.remedies.push_back(remedy("other-exporter", exported.error().message, "step validate"));
    } else {
      step.verdict = Verdict::unsupported;
      step.result["error"] = to_json(exported.error());
      if (options_.remedies) issue.evidence["other_exporter"] = second.error().message;
    }
    step.issues.push_back(std::move(issue));
    if (!second) return step;
    exported = std::move(second);
  }
  step.result = to_json(*exported);
  made_model(step, "model.onnx");
  if (exported->opset_asked && *exported->opset_asked != exported->opset_produced)
    step.issues.push_back(
        {"export", "", "export",
         "asked for opset " + std::to_string(*exported->opset_asked) + ", the exporter produced " +
             std::to_string(exported->opset_produced),
         "the exporter has its own lowest opset", "targets with a lower maximum are served by opset conversion",
         "accepted", Json::object(),
         Json{{"opset_asked", *exported->opset_asked}, {"opset_produced", exported->opset_produced}}});
  return step;
}

}  // namespace portwright
