// The step simplify: the graph that engines are given, proven equal to the exported one.
#include "portwright/simplify.h"

#include "port/run.h"
#include "portwright/prove.h"
#include "rewrite/records.h"

namespace portwright {
namespace {

constexpr const char* kSimplified = "model.simplified.onnx";

Issue left_out(const std::string& pass, const std::string& file) {
  return {"simplify",
          "",
          "numeric",
          "simplifying changed the results of this model",
          "the pass '" + pass + "'",
          "left that pass out; the rest is proven equal",
          "fixed",
          Json::object(),
          Json{{"pass", pass}, {"model", file}}};
}

}  // namespace

// Only a model that is right is simplified: of a wrong one the record shows what the exporter wrote.
Status Run::simplify_model() {
  if (!options_.simplify || find_step("validate")->verdict() != Verdict::passed) return {};
  const Json on{{"validate", model_key_},
                {"export", find_step("export")->json.at("made")},
                {"other", find_step("validate")->json.at("made")}};
  PW_TRY(record, steps_.step("simplify", on, "logs/simplify.log", [&] { return simplify_body(); }));
  if (!record.passed()) return {};
  model_file_ = record.result().value("model", exported_file_);
  model_key_ = record.key;
  return {};
}

Result<StepResult> Run::simplify_body() {
  PW_TRY(model, Model::load(folder_ / exported_file_));
  const Isolation apart = isolation("simplify.log");
  ProofOptions proof;
  proof.inputs = inputs_.specs;
  proof.dynamic = inputs_.dynamic;
  proof.seed = options_.seed;
  proof.threads = options_.threads;
  proof.isolation = apart;
  SimplifyOptions options;
  options.progress = proof.progress = [this](const std::string& what) { note("simplify", what); };
  options.evaluate = evaluation_by_onnxruntime(options_.threads, apart);
  options.prove = proof_by_running(std::move(proof));
  PW_TRY(done, simplify(model, options));
  StepResult step;
  step.result = to_json(done);
  step.result["verdict"] = to_string(done.proof->verdict);
  step.result["model"] = exported_file_;
  for (const std::string& pass : done.excluded_passes) step.issues.push_back(left_out(pass, exported_file_));
  if (done.proof->verdict != Verdict::passed) return step;  // engines get the model as it was exported
  PW_CHECK(done.model.save(folder_ / kSimplified, done.model.stored_as()));
  step.result["model"] = kSimplified;
  made_model(step, kSimplified);
  return step;
}

}  // namespace portwright
