// The steps compile and validate of one target, with the remedies that are tried when it does not come out right.
#include <algorithm>

#include "base/digest.h"
#include "base/machine.h"
#include "engine/torch/session.h"
#include "port/run.h"
#include "portwright/npz.h"
#include "verify/records.h"
#include "verify/validation_record.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

constexpr const char* kLadder[] = {"extended", "basic", "off"};  // below "all"

// ONNX Runtime's optimisations that rewrite arithmetic, tried one by one to find the guilty one.
constexpr const char* kOptimisers[] = {"ConstantFolding",
                                       "MatMulAddFusion",
                                       "ReshapeFusion",
                                       "GeluFusion",
                                       "LayerNormFusion",
                                       "SimplifiedLayerNormFusion",
                                       "AttentionFusion",
                                       "EmbedLayerNormFusion",
                                       "SkipLayerNormFusion",
                                       "FastGeluFusion",
                                       "BiasGeluFusion",
                                       "BiasSoftmaxFusion",
                                       "MatMulScaleFusion",
                                       "ConvActivationFusion",
                                       "ConvAddActivationFusion",
                                       "GemmActivationFusion",
                                       "MatMulActivationFusion",
                                       "TransposeOptimizer",
                                       "NchwcTransformer",
                                       "CommonSubexpressionElimination",
                                       "QDQPropagationTransformer",
                                       "DynamicQuantizeMatMulFusion",
                                       "ConvMulFusion",
                                       "ConvAddFusion",
                                       "ConvBNFusion",
                                       "EliminateIdentity",
                                       "EliminateDropout",
                                       "CastElimination",
                                       "NoopElimination",
                                       "DivMulFusion",
                                       "FuseReluClip",
                                       "GemmSumFusion",
                                       "GemmTransposeFusion",
                                       "UnsqueezeElimination",
                                       "ExpandElimination",
                                       "SliceElimination",
                                       "CastChainElimination",
                                       "PadFusion",
                                       "MatMulTransposeFusion",
                                       "PreShapeNodeElimination"};

bool right(const Validation& validation) {
  return validation.verdict == Verdict::passed || validation.verdict == Verdict::vacuous;
}

// Failures of the machine's or the user's making are not mended by another configuration.
bool engine_refused(const Error& error) {
  return error.fault == Fault::gate && error.code != "timed_out" && error.code != "out_of_memory";
}

Json configuration_key(const Target& target, int threads) {
  std::string version;
  if (auto engine = find_engine(target.engine)) version = (*engine)->available().value_or("absent");
  return Json{
      {"target", target.text}, {"version", version}, {"cpu", this_machine().cpu_features}, {"threads", threads}};
}

}  // namespace

Json to_json(const Configuration& configuration) {
  return Json{{"model", configuration.model},
              {"optimization", configuration.optimization},
              {"disabled", configuration.disabled}};
}

Configuration configuration_from(const Json& value) {
  return {value.at("model"), value.at("optimization"), value.at("disabled").get<std::vector<std::string>>()};
}

fs::path Run::engine_folder(const Lane& lane) const { return folder_ / "engines" / lane.target.folder(); }

CompileOptions Run::compile_options(const Lane& lane) const {
  return {lane.target, options_.threads, lane.configuration.optimization, lane.configuration.disabled, {}};
}

Result<std::unique_ptr<Session>> Run::open(const Lane& lane, bool save) {
  const std::string log = lane.target.folder() + ".log";
  if (lane.target.engine == "torch") return open_torch(source_options(log), lane.target, options_.threads);
  PW_TRY(model, Model::load(folder_ / lane.configuration.model));
  CompileOptions options = compile_options(lane);
  if (save) options.save_to = engine_folder(lane);
  return open_session(model, options, isolation(log));
}

// A step whose evidence still holds left no session behind: the engine that it saved is opened, or compiled again.
Status Run::reopen(Lane& lane) {
  if (lane.session) return {};
  std::error_code ignored;
  if (lane.target.engine != "torch" && fs::exists(engine_folder(lane) / "engine.json", ignored)) {
    auto saved = open_saved(engine_folder(lane), compile_options(lane), isolation(lane.target.folder() + ".log"));
    if (saved) {
      lane.session = std::move(*saved);
      return {};
    }
  }
  PW_TRY(session, open(lane, false));
  lane.session = std::move(session);
  return {};
}

Status Run::port_target(Lane& lane) {
  const bool torch = lane.target.engine == "torch";
  if (!torch && !model_ready_) return {};
  lane.configuration.model = model_file_;
  Json on = configuration_key(lane.target, options_.threads);
  on["model"] = torch ? Json(find_step("build")->key) : Json(model_key_);
  on["remedies"] = options_.remedies;
  const std::string log = "logs/" + lane.target.folder() + ".log";
  PW_TRY(compiled, steps_.step("compile:" + lane.target.text, on, log, [&] { return compile_body(lane); }));
  lane.key = compiled.key;
  lane.verdict = compiled.verdict();
  if (!compiled.passed()) return {};
  lane.configuration = configuration_from(compiled.result().at("configuration"));
  const Json validated_on{{"compile", compiled.key},
                          {"files", compiled.json.at("made")},
                          {"build", find_step("build")->json.at("made")},
                          {"rtol", options_.rtol.value_or(-1)},
                          {"atol", options_.atol.value_or(-1)},
                          {"drift", options_.drift_limit}};
  PW_TRY(validated,
         steps_.step("validate:" + lane.target.text, validated_on, log, [&] { return validate_body(lane); }));
  lane.key = validated.key;
  lane.verdict = validated.verdict();
  if (validated.result().contains("configuration"))
    lane.configuration = configuration_from(validated.result()["configuration"]);
  return {};
}

// ---- compile ----

Result<StepResult> Run::compile_body(Lane& lane) {
  StepResult step;
  PW_CHECK(lower_opset(lane, step));
  if (auto compiled = compile_first(lane, step); !compiled) {
    if (model_right_ || lane.target.engine == "torch" || compiled.error().fault != Fault::gate)
      return fail(compiled.error());
    step.verdict = verdict_of(compiled.error());  // the exported model is to blame, and its own step has said so
    step.result["error"] = to_json(compiled.error());
    return step;
  }
  PW_CHECK(put_weights_in_graph(lane, step));
  const EngineInfo& info = lane.session->info();
  if (!lane.target.reduced() && !info.default_precision.empty() && info.default_precision != "fp32")
    step.remedies.push_back(remedy(
        "strict-fp32", lane.target.engine + " computes in " + info.default_precision + " here unless told otherwise",
        "precision read back: " + info.precision_effective));
  if (info.device != info.device_asked)
    step.issues.push_back({"compile", lane.target.text, "performance",
                           "asked for " + info.device_asked + ", the work runs on " + info.device,
                           "the engine fell back for nodes that the device does not take",
                           "use another target, or accept the fallback", "open", Json::object(),
                           Json{{"device", info.device}}});
  step.result = Json{{"configuration", to_json(lane.configuration)},
                     {"load_s", lane.session->load_seconds},
                     {"compile_s", lane.session->compile_seconds},
                     {"device", info.device},
                     {"precision_effective", info.precision_effective}};
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(engine_folder(lane), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == "engine.json" || name.starts_with("engine.") || name.starts_with("model."))
      step.made.push_back(fs::relative(entry.path(), folder_));
  }
  std::sort(step.made.begin(), step.made.end());
  if (lane.configuration.model != model_file_ && lane.target.engine != "torch")
    step.made.emplace_back(lane.configuration.model);
  return step;
}

// The remedy for an engine that does not get on with the simplified model: the one that was exported, if that `works`.
bool Run::try_as_exported(Lane& lane, StepResult& step, const std::string& symptom,
                          const std::function<bool()>& works) {
  if (!options_.remedies || lane.target.engine == "torch" || model_file_ == exported_file_ ||
      lane.configuration.model != model_file_)
    return false;
  note("compile:" + lane.target.text, "trying the model as it was exported");
  const std::string simplified = std::exchange(lane.configuration.model, exported_file_);
  if (!works()) {
    lane.configuration.model = simplified;
    return false;
  }
  step.issues.push_back({"compile", lane.target.text, "op", symptom,
                         lane.target.engine + " does not get on with the simplified model, which ONNX Runtime computes "
                                              "as the exported one",
                         "compiled the model as it was exported", "fixed", Json::object(),
                         Json{{"refused", simplified}}});
  step.remedies.push_back(remedy("as-exported", symptom, "validated against PyTorch at every size"));
  return true;
}

// An engine that refuses the model at full optimisation may take it at a lower level.
Status Run::compile_first(Lane& lane, StepResult& step) {
  auto session = open(lane, true);
  if (session) {
    lane.session = std::move(*session);
    return {};
  }
  const Error first = session.error();
  const auto opens = [&] {
    auto as_exported = open(lane, true);
    if (as_exported) lane.session = std::move(*as_exported);
    return as_exported.has_value();
  };
  if (engine_refused(first) && try_as_exported(lane, step, first.message, opens)) return {};
  if (lane.target.engine != "onnxruntime" || !options_.remedies || !engine_refused(first)) return fail(first);
  for (const char* level : kLadder) {
    note("compile:" + lane.target.text, std::string("optimisation ") + level);
    lane.configuration.optimization = level;
    auto lower = open(lane, true);
    if (!lower) continue;
    lane.session = std::move(*lower);
    Issue issue = issue_from(first, "compile", lane.target.text);
    issue.cause = "an optimisation above level '" + std::string(level) + "' of ONNX Runtime rejects a valid model";
    issue.fix = "compiled at optimisation level '" + std::string(level) + "'";
    issue.status = "fixed";
    step.issues.push_back(std::move(issue));
    step.remedies.push_back(remedy("optimisation-ladder", first.message,
                                   std::string("compiles at level ") + level + "; validated after it"));
    return {};
  }
  lane.configuration.optimization = "all";
  return fail(first);
}

// The remedy for an opset above the engine's newest: convert, and prove the result equal on the recorded inputs.
Status Run::lower_opset(Lane& lane, StepResult& step) {
  if (lane.target.engine == "torch") return {};
  PW_TRY(engine, find_engine(lane.target.engine));
  if (auto there = engine->available(); !there) return fail(there.error());
  PW_TRY(model, Model::load(folder_ / lane.configuration.model));
  const std::int64_t newest = engine->newest_opset();
  if (newest == 0 || model.opset() <= newest || !options_.remedies) return {};
  note("compile:" + lane.target.text,
       "converting opset " + std::to_string(model.opset()) + " to " + std::to_string(newest));
  const std::string reason = "the model has opset " + std::to_string(model.opset()) + ", " + lane.target.engine +
                             " takes at most " + std::to_string(newest);
  PW_TRY(converted, model.with_opset(newest));
  const std::string file = "model.opset" + std::to_string(newest) + ".onnx";
  PW_CHECK(converted.save(folder_ / file, model.weight_bytes() < kOneFile ? SaveMode::inlined : SaveMode::external));
  PW_TRY(validation, validate_plainly(file));
  if (!right(validation))
    return fail({Fault::gate, "compile", "unsupported", reason + ", and the version converter changes its results",
                 lane.target.text, "export at a lower --opset", ""});
  lane.configuration.model = file;
  step.remedies.push_back(
      remedy("opset-conversion", reason, "the converted model passes against PyTorch at every size"));
  step.issues.push_back({"compile", lane.target.text, "export", reason, "the exporter's opset is newer than the engine",
                         "converted to opset " + std::to_string(newest), "fixed", Json::object(),
                         Json{{"opset", model.opset()}, {"newest", newest}}});
  return {};
}

// Where the hardware has no arithmetic at the asked precision the engine silently computes in fp32. The loss is then
// put into the graph: weights stored at the precision, a Cast behind each.
Status Run::put_weights_in_graph(Lane& lane, StepResult& step) {
  if (!lane.target.reduced() || lane.target.engine == "torch") return {};
  const EngineInfo asked = lane.session->info();
  if (asked.precision_effective == lane.target.precision) return {};
  Issue issue{
      "compile",
      lane.target.text,
      "performance",
      "asked for " + lane.target.precision + ", " + lane.target.engine + " computes in " + asked.precision_effective,
      "this CPU has no " + lane.target.precision + " arithmetic that the engine uses",
      "run on hardware with " + lane.target.precision + ", or pass the target as fp32",
      "open",
      Json::object(),
      Json{{"precision_asked", lane.target.precision},
           {"precision_effective", asked.precision_effective},
           {"cpu_features", asked.cpu_features}}};
  const auto dtype = dtype_from(lane.target.precision);
  if (options_.remedies && dtype) {
    note("compile:" + lane.target.text, "storing weights in " + lane.target.precision);
    PW_TRY(model, Model::load(folder_ / lane.configuration.model));
    const std::string file = "model." + lane.target.precision + "-weights.onnx";
    PW_CHECK(model.with_weights_rounded(*dtype, folder_ / file));
    const std::string before = std::exchange(lane.configuration.model, file);
    if (auto session = open(lane, true)) {
      lane.session = std::move(*session);
      issue.status = "accepted";
      issue.fix = "weights are stored in " + lane.target.precision +
                  " inside the graph (half the size); arithmetic stays " + asked.precision_effective;
      step.remedies.push_back(remedy("weights-in-graph", issue.symptom,
                                     "validated against PyTorch at " + lane.target.precision + " by the drift ratio"));
      step.made.emplace_back(file + ".data");
    } else {
      lane.configuration.model = before;
    }
  }
  step.issues.push_back(std::move(issue));
  return {};
}

// ---- validate ----

Validation Run::validate_session(Lane& lane) {
  const std::string step = "validate:" + lane.target.text;
  Validation validation =
      validate(*lane.session, lane.target, inputs_.sizes(), cases_, reference_, validate_options(lane.target, step));
  if (lane.configuration.model.find("-weights.onnx") != std::string::npos)
    validation.engine.precision_effective =
        lane.target.precision + " weights, " + validation.engine.precision_effective + " arithmetic";
  return validation;
}

Result<StepResult> Run::validate_body(Lane& lane) {
  StepResult step;
  PW_CHECK(reopen(lane));
  Validation validation = validate_session(lane);
  const auto is_right = [&] {
    auto session = open(lane, false);
    if (!session) return false;
    std::swap(lane.session, *session);
    Validation again = validate_session(lane);
    std::swap(lane.session, *session);
    auto saved = right(again) ? open(lane, true) : std::move(session);
    if (!right(again) || !saved) return false;
    lane.session = std::move(*saved);
    validation = std::move(again);
    return true;
  };
  if (!right(validation)) try_as_exported(lane, step, "wrong results for the simplified model", is_right);
  if (!right(validation) && model_right_ && lane.target.engine == "onnxruntime" && options_.remedies)
    PW_CHECK(climb_down(lane, step, validation));
  if (!right(validation) && step.issues.empty()) explain_target(lane, step, validation);
  if (lane.target.precision == "fp16") look_for_overflow(lane, step);
  PW_CHECK(write_evidence(lane, step, validation));
  step.verdict = validation.verdict;
  step.result = to_json(validation);
  step.result["configuration"] = to_json(lane.configuration);
  return step;
}

// The ladder: the highest level of ONNX Runtime's optimisation at which the model is right; then, at full optimisation,
// the one optimiser without which it is right too.
Status Run::climb_down(Lane& lane, StepResult& step, Validation& validation) {
  const Configuration full = lane.configuration;
  const auto attempt = [&](const std::string& level, std::vector<std::string> disabled) {
    note("validate:" + lane.target.text,
         "optimisation " + level + (disabled.empty() ? "" : " without " + disabled.front()));
    lane.configuration = {full.model, level, std::move(disabled)};
    auto session = open(lane, true);
    if (!session) return false;
    lane.session = std::move(*session);
    Validation again = validate_session(lane);
    if (!right(again)) return false;
    validation = std::move(again);
    return true;
  };
  const std::string symptom = "wrong at full optimisation, right when ONNX Runtime does not optimise";
  const std::string level = [&]() -> std::string {
    for (const char* one : kLadder)
      if (attempt(one, {})) return one;
    return "";
  }();
  if (level.empty()) {
    lane.configuration = full;
    PW_TRY(session, open(lane, true));
    lane.session = std::move(session);
    return {};
  }
  Configuration best = lane.configuration;
  std::string guilty;
  for (const char* optimiser : kOptimisers)
    if (attempt("all", {optimiser})) {
      guilty = optimiser;
      best = lane.configuration;
      break;
    }
  lane.configuration = best;
  PW_TRY(session, open(lane, true));
  lane.session = std::move(session);
  const std::string fix =
      guilty.empty() ? "compiled at optimisation level '" + level + "'" : "left out the optimisation " + guilty;
  step.issues.push_back({"validate", lane.target.text, "numeric", symptom,
                         guilty.empty() ? "an optimisation above level '" + level + "'" : "the optimisation " + guilty,
                         fix, "fixed", Json::object(), Json{{"configuration", to_json(best)}}});
  step.remedies.push_back(remedy("optimisation-ladder", symptom, fix + "; passes at every size"));
  return {};
}

// Names the first node that leaves an unoptimised run, unless the exported model is wrong already (told at its own
// step).
void Run::explain_target(Lane& lane, StepResult& step, const Validation& validation) {
  const auto failing = std::find_if(validation.sizes.begin(), validation.sizes.end(),
                                    [](const SizeResult& s) { return s.verdict != Verdict::passed; });
  if (failing == validation.sizes.end()) return;
  if (!model_right_ && lane.target.engine != "torch") return;
  if (failing->error && failing->verdict != Verdict::mismatch) {
    Issue issue = issue_from(*failing->error, "validate", lane.target.text);
    issue.evidence["axes"] = failing->axes;
    step.issues.push_back(std::move(issue));
    return;
  }
  Issue issue{"validate", lane.target.text, "numeric",      "outputs leave PyTorch's",    "",
              "",         "open",           Json::object(), Json{{"axes", failing->axes}}};
  issue.evidence["metrics"] = to_json(failing->metrics);
  for (const OutputMetrics& output : failing->metrics.outputs)
    if (output.verdict != Verdict::passed) {
      issue.symptom = "output '" + output.name + "' leaves PyTorch's by up to " + std::to_string(output.max_abs) +
                      " (" + output.reason + ")";
      issue.where["tensor"] = output.name;
      break;
    }
  auto question = cases_(failing->axes, 0);
  auto model = Model::load(folder_ / lane.configuration.model);
  if (lane.target.engine != "torch" && question && model) {
    note("validate:" + lane.target.text, "looking for the first node that differs");
    const auto apart = isolation(lane.target.folder() + ".log");
    const auto truth = unoptimised_tensors(*model, question->inputs, apart);
    const auto actual = all_tensors(*model, compile_options(lane), question->inputs, apart);
    if (!truth || !actual) {
      issue.cause = "not located: " + (truth ? actual.error() : truth.error()).message;
    } else if (const auto culprit = first_difference(*model, *actual, *truth, policy_for("fp32"))) {
      issue.where = where_of(culprit->node);
      issue.where["tensor"] = culprit->tensor;
      issue.cause = lane.target.engine + " computes node '" + culprit->node.node + "' (" + culprit->node.op_type +
                    ") differently from ONNX Runtime without optimisation";
    } else {
      issue.cause = "no single node differs when every tensor is an output: an optimisation across nodes is to blame";
    }
  }
  issue.fix = "try another precision or engine, or report the node with its reproducer to the engine";
  step.issues.push_back(std::move(issue));
}

// fp16 ends at 65504. A CPU that computes in fp32 hides what a GPU would show, so the fp32 activations are looked at.
void Run::look_for_overflow(Lane& lane, StepResult& step) {
  if (lane.target.engine == "torch") return;
  auto model = Model::load(folder_ / model_file_);
  auto example = cases_(inputs_.example(), 0);
  if (!model || !example) return;
  note("validate:" + lane.target.text, "looking for activations beyond fp16");
  auto culprit = first_overflow(*model, example->inputs, isolation(lane.target.folder() + ".log"));
  if (!culprit || !*culprit) return;
  Issue issue{
      "validate", lane.target.text,           "numeric",     "activations leave the range of fp16 (65504)", "", "",
      "open",     where_of((*culprit)->node), Json::object()};
  issue.where["tensor"] = (*culprit)->tensor;
  issue.cause = "node '" + (*culprit)->node.node + "' reaches " + std::to_string((*culprit)->metrics.max_abs) +
                "; in fp16 that is Inf, even where this CPU computes in fp32 and hides it";
  issue.fix = "keep this layer in fp32, use bf16, or scale the activations down";
  issue.evidence["largest"] = (*culprit)->metrics.max_abs;
  step.issues.push_back(std::move(issue));
}

Status Run::write_evidence(Lane& lane, StepResult& step, const Validation& validation) {
  const fs::path folder = engine_folder(lane);
  PW_CHECK(make_folders(folder));
  PW_CHECK(write_json(folder / "metrics.json", to_json(validation)));
  step.made.push_back(fs::relative(folder / "metrics.json", folder_));
  PW_TRY(example, cases_(inputs_.example(), 0));
  auto answer = lane.session->run(example.inputs);
  if (!answer) return {};  // it crashed: the record says so
  PW_CHECK(write_npz(folder / "outputs.npz", answer->outputs));
  step.made.push_back(fs::relative(folder / "outputs.npz", folder_));
  return {};
}

}  // namespace portwright
