// The steps check and validate: is the exported model valid, and does it compute what PyTorch computes, before any
// engine's optimiser has touched it.
#include <algorithm>

#include "model/records.h"
#include "port/run.h"
#include "portwright/follow_sizes.h"
#include "report/format.h"
#include "verify/validation_record.h"

namespace portwright {
namespace {

Json size_evidence(const Validation& validation) {
  Json list = Json::array();
  for (const SizeResult& size : validation.sizes) {
    Json entry{{"axes", size.axes}, {"verdict", to_string(size.verdict)}};
    if (size.error) entry["error"] = size.error->message;
    double worst = 0;
    for (const OutputMetrics& output : size.metrics.outputs) worst = std::max(worst, output.max_abs);
    if (!size.error) entry["max_abs"] = number(worst);
    list.push_back(std::move(entry));
  }
  return list;
}

bool example_is_right(const Validation& validation) {
  return !validation.sizes.empty() &&
         (validation.sizes.front().verdict == Verdict::passed || validation.sizes.front().verdict == Verdict::vacuous);
}

std::string failing_sizes(const Validation& validation) {
  std::string text;
  for (const SizeResult& size : validation.sizes) {
    if (size.verdict == Verdict::passed) continue;
    std::string one;
    for (const auto& [symbol, value] : size.axes)
      one += (one.empty() ? "" : ",") + symbol + "=" + std::to_string(value);
    text += (text.empty() ? "" : "; ") + one + (one.empty() ? "" : " ") + std::string(to_string(size.verdict));
  }
  return text;
}

// The issues of the step are what a remedy has put right.
void fixed(StepResult& step, const std::string& how, const std::string& name, const std::string& reason) {
  for (Issue& issue : step.issues) {
    issue.fix = issue.status == "fixed" ? issue.fix + "; " + how : how;
    issue.status = "fixed";
  }
  step.remedies.push_back(remedy(name, reason, "step validate passes at every size"));
}

}  // namespace

Status Run::check() {
  const Json on{{"export", find_step("export")->json.at("made")}};
  const auto body = [&]() -> Result<StepResult> {
    PW_TRY(model, Model::load(folder_ / "model.onnx"));
    StepResult step;
    const auto findings = model.check();
    step.result = to_json(findings);
    for (const Finding& finding : findings) {
      if (finding.severity != Severity::error) continue;
      step.verdict = Verdict::invalid_model;
      const std::string kind = finding.code.find("type") != std::string::npos ? "dtype" : "shape";
      step.issues.push_back({"check", "", kind, finding.message,
                             "expected " + finding.expected + ", received " + finding.received, finding.hint, "open",
                             Json{{"node", finding.node}}, Json{{"code", finding.code}}});
    }
    return step;
  };
  PW_CHECK(steps_.step("check", on, "logs/python.log", body));
  return {};
}

Result<Validation> Run::validate_plainly(const std::string& file) {
  PW_TRY(model, Model::load(folder_ / file));
  CompileOptions plain{{"onnxruntime", "fp32", "", "cpu", "onnxruntime:fp32"}, options_.threads, "off", {}, {}};
  PW_TRY(session, open_session(model, plain, isolation("validate.log")));
  return validate(*session, plain.target, inputs_.sizes(), cases_, reference_,
                  validate_options(plain.target, "validate"));
}

ValidateOptions Run::validate_options(const Target& target, const std::string& step) const {
  ValidateOptions options;
  options.policy = policy_for(target.precision);
  options.policy.rtol = options_.rtol.value_or(options.policy.rtol);
  options.policy.atol = options_.atol.value_or(options.policy.atol);
  options.drift_limit = options_.drift_limit;
  options.progress = [this, step](const std::string& what) { note(step, what); };
  return options;
}

Status Run::validate_model() {
  const Json on{{"build", find_step("build")->key},
                {"export", find_step("export")->json.at("made")},
                {"engine", find_engine("onnxruntime").value()->available().value_or("")},
                {"rtol", options_.rtol.value_or(-1)},
                {"atol", options_.atol.value_or(-1)},
                {"remedies", options_.remedies}};
  PW_TRY(record, steps_.step("validate", on, "logs/validate.log", [&] { return validate_model_body(); }));
  exported_file_ = model_file_ = record.result().value("model", std::string("model.onnx"));
  model_right_ = record.passed() || record.verdict() == Verdict::vacuous;
  model_key_ = record.key;
  return {};
}

Result<StepResult> Run::validate_model_body() {
  StepResult step;
  std::string file = "model.onnx";
  auto first = validate_plainly(file);
  if (!first && !find_step("check")->passed() && first.error().fault == Fault::gate) {  // check has told why already
    step.verdict = Verdict::invalid_model;
    step.result = Json{{"error", to_json(first.error())}, {"model", file}};
    return step;
  }
  if (!first) return fail(first.error());
  Validation& validation = *first;
  if (validation.verdict != Verdict::passed && validation.verdict != Verdict::vacuous) {
    explain_model(step, validation, file);
    if (options_.remedies && needs_torch() && !try_following_sizes(step, validation, file))
      try_other_exporter(step, validation, file);
  }
  if (validation.verdict == Verdict::vacuous) explain_model(step, validation, file);
  step.verdict = validation.verdict;
  step.result = to_json(validation);
  step.result["model"] = file;
  return step;
}

// The remedy for a size of the example that is frozen into shapes: 0 or -1 in its place, kept only when the model is
// then right at every size.
bool Run::try_following_sizes(StepResult& step, Validation& validation, std::string& file) {
  if (!example_is_right(validation)) return false;
  const auto model = Model::load(folder_ / file);
  const auto followed = model ? follow_sizes(*model, inputs_.example()) : std::nullopt;
  const std::string followed_file = "model.followed.onnx";
  if (!followed || !followed->model.save(folder_ / followed_file, followed->model.stored_as())) return false;
  auto second = validate_plainly(followed_file);
  if (!second || second->verdict != Verdict::passed) {
    remove_model(followed_file);
    return false;
  }
  fixed(step, "changed " + joined(followed->changes), "follow-sizes",
        "a size of the example is frozen into shapes: " + failing_sizes(validation));
  made_model(step, followed_file);
  validation = std::move(*second);
  file = followed_file;
  return true;
}

// The remedy for a wrong export: the other exporter, kept only when it is right at every size, if need be after the
// remedy for frozen sizes.
bool Run::try_other_exporter(StepResult& step, Validation& validation, std::string& file) {
  const std::string used = find_step("export")->result().value("exporter", options_.exporter);
  const std::string other = used == "dynamo" ? "torchscript" : "dynamo";
  const std::string other_file = "model." + other + ".onnx";
  if (!export_with(other, other_file)) return false;
  auto second = validate_plainly(other_file);
  StepResult trial = step;
  fixed(trial, "exported with the " + other + " exporter instead", "other-exporter",
        "the " + used + " export is wrong: " + failing_sizes(validation));
  made_model(trial, other_file);
  std::string tried = other_file;
  if (!second || (second->verdict != Verdict::passed && !try_following_sizes(trial, *second, tried))) {
    remove_model(other_file);
    return false;
  }
  step = std::move(trial);
  validation = std::move(*second);
  file = tried;
  return true;
}

// Says which node or line is to blame: literal sizes when only other sizes than the example's fail, else the export.
void Run::explain_model(StepResult& step, const Validation& validation, const std::string& file) {
  Issue issue{
      "validate", "", "numeric", "", "", "", "open", Json::object(), Json{{"sizes", size_evidence(validation)}}};
  auto model = Model::load(folder_ / file);
  if (validation.verdict == Verdict::vacuous) {
    issue.symptom = "the outputs prove nothing: " + joined(validation.vacuous_outputs);
    issue.cause = "the head is zero-initialised, saturated or does not depend on the input";
    issue.fix = "load trained weights, or choose inputs to which the outputs react";
    const std::string output =
        validation.vacuous_outputs.front().substr(0, validation.vacuous_outputs.front().find(": "));
    issue.where["tensor"] = output;
    if (model)
      if (auto producer = model->producer_of(output)) issue.where.update(where_of(*producer));
  } else if (validation.verdict == Verdict::reference_failure) {
    issue.kind = "shape";
    issue.symptom = "PyTorch itself fails: " + failing_sizes(validation);
    issue.fix = "narrow the dynamic range to what the module accepts";
    for (const SizeResult& size : validation.sizes)
      if (size.error) issue.where["line"] = size.error->where;
  } else if (example_is_right(validation)) {
    issue.kind = "shape";
    issue.symptom = "right at the example's size, not at others: " + failing_sizes(validation);
    issue.cause = "a size of the example is frozen into the graph";
    issue.fix = "compute the size from the tensor's own shape instead of a Python number";
    for (const auto& assumed : find_step("export")->result().value("assumptions", Json::array())) {
      issue.cause = "the exporter took for granted that " + assumed.value("condition", std::string());
      issue.where["line"] = assumed.value("where", std::string());
      break;
    }
    if (model)
      if (const auto literal = model->literal_sizes(inputs_.example()); !literal.empty()) {
        issue.cause = literal.front().message;
        for (const NodeOrigin& node : model->nodes())
          if (node.node == literal.front().node) issue.where.update(where_of(node));
      }
  } else {
    issue.kind = "export";
    issue.symptom = "the exported model does not compute what PyTorch computes: " + failing_sizes(validation);
    issue.cause = "the exporter changed the computation";
    issue.fix = "try another opset or exporter";
    if (model) locate_in_export(issue, *model);
  }
  step.issues.push_back(std::move(issue));
}

// The first tensor of the graph that PyTorch computes differently inside the exported program.
void Run::locate_in_export(Issue& issue, const Model& model) {
  if (!needs_torch() || find_step("export")->result().value("exporter", std::string()) != "dynamo") return;
  note("validate", "looking for the first node that PyTorch computes differently");
  auto example = cases_(inputs_.example(), 0);
  auto opened = source();
  if (!example || !opened) return;
  const auto truth = (*opened)->trace({{}, "dynamo", options_.opset, example->inputs});
  const auto actual = unoptimised_tensors(model, example->inputs, isolation("validate.log"));
  if (!truth || !actual) return;
  const auto culprit = first_difference(model, *actual, *truth, policy_for("fp32"), false);
  if (!culprit) return;
  issue.where = where_of(culprit->node);
  issue.where["tensor"] = culprit->tensor;
  issue.cause = "the exporter wrote node '" + culprit->node.node + "' (" + culprit->node.op_type +
                ") for something that PyTorch computes differently";
  issue.evidence["max_abs"] = number(culprit->metrics.max_abs);
}

}  // namespace portwright
