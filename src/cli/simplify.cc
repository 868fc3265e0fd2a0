// portwright simplify: a smaller graph that computes the same, proven.
#include "portwright/simplify.h"

#include <fmt/format.h>

#include "cli/metrics_table.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "portwright/prove.h"
#include "report/format.h"
#include "rewrite/records.h"

namespace portwright {
namespace {

struct SimplifyVerbOptions {
  std::string model, out;
  std::string budget = "1M";
  std::vector<std::string> without;
  bool no_proof = false, explain = false;
  InputOptions inputs;
  IsolationOptions isolation;
};

Result<SimplifyOptions> options_of(const SimplifyVerbOptions& options, Progress& progress) {
  SimplifyOptions out;
  PW_TRY(budget, parse_size(options.budget, "--budget"));
  PW_TRY(limits, isolation(options.isolation));
  out.fold_budget = budget;
  out.without = {options.without.begin(), options.without.end()};
  out.evaluate = evaluation_by_onnxruntime(options.isolation.threads, limits);
  out.progress = [&progress](const std::string& what) { progress.now(what); };
  if (options.no_proof) return out;
  PW_TRY(proof, proof_options(options.inputs, options.isolation, progress));
  out.prove = proof_by_running(std::move(proof));
  return out;
}

std::string explanation(const Console& console, const Simplification& done, bool all) {
  Table table({"pass", "#changes", "#seconds"});
  std::string details;
  for (const PassReport& pass : done.passes) {
    if (pass.changes == 0 && !all) continue;
    table.add({pass.name, std::to_string(pass.changes), fmt::format("{:.3f}", pass.seconds)});
    for (const std::string& detail : pass.details)
      details += "  " + console.paint(Tone::faint, pass.name + ": ") + detail + "\n";
  }
  return table.text(console) + (all ? details : "");
}

std::string proof_text(const Simplification& done) {
  if (!done.proof) return "not proven";
  const Proof& proof = *done.proof;
  if (proof.verdict == Verdict::passed)
    return fmt::format("equal on {} inputs, max abs {}", proof.inputs, format_error(proof.max_abs));
  return proof.reason;
}

Result<ExitCode> simplify_file(Console& console, const SimplifyVerbOptions& options) {
  Progress& progress = console.progress();
  progress.now("loading " + options.model);
  PW_TRY(model, Model::load(options.model));
  PW_TRY(how, options_of(options, progress));
  PW_TRY(done, simplify(model, how));
  const Verdict verdict = done.proof ? done.proof->verdict : Verdict::passed;
  if (verdict == Verdict::passed) {
    progress.now("saving " + options.out);
    PW_CHECK(done.model.save(options.out, done.model.stored_as()));
  }
  Json out = to_json(done);
  out["verdict"] = to_string(verdict);
  out["model"] = options.model;
  out["output"] = verdict == Verdict::passed ? Json(options.out) : Json();
  console.document(out);
  std::string text = explanation(console, done, options.explain);
  for (const std::string& pass : done.excluded_passes)
    text += console.paint(Tone::warn, "left out: ") + pass + " changed the results of this model\n";
  text += verdict_line(console, verdict,
                       fmt::format("{} nodes became {}; {}{}", done.nodes_before, done.nodes_after, proof_text(done),
                                   verdict == Verdict::passed ? "; " + options.out : "; nothing was written"));
  console.print(text);
  return exit_code(verdict);
}

}  // namespace

void add_simplify(Program& program) {
  const auto options = std::make_shared<SimplifyVerbOptions>();
  std::vector<std::string> passes;
  for (const PassInfo& pass : simplify_passes()) passes.push_back(pass.name);
  Verb verb = program.add({"simplify",
                           "Make a model's graph smaller and prove that it computes the same",
                           {"portwright simplify model.onnx -o small.onnx",
                            "portwright simplify model.onnx -o small.onnx --explain --without gemm"}},
                          [options](Console& console) { return simplify_file(console, *options); });
  verb.argument("MODEL", options->model, "An ONNX file");
  verb.option("-o,--output", options->out, "FILE", "Where the result goes", Need::required);
  verb.flag("--no-proof", options->no_proof, "Do not run the model to prove the result");
  verb.flag("--explain", options->explain, "Say what each pass did, node by node");
  verb.option("--without", options->without, "PASS", "Leave a pass out; may be repeated. PASS: all, " + joined(passes));
  verb.option("--budget", options->budget, "SIZE", "Bytes by which one folded constant may make the file larger");
  add_options(verb, options->inputs);
  add_options(verb, options->isolation);
}

}  // namespace portwright
