// portwright port: the main job, from a PyTorch model to proven engines.
#include "portwright/port.h"

#include <fmt/format.h>

#include "base/files.h"
#include "cli/metrics_table.h"
#include "cli/program.h"
#include "cli/records.h"
#include "cli/signals.h"
#include "cli/sources.h"
#include "cli/table.h"
#include "report/format.h"
#include "report/record.h"
#include "report/report.h"

namespace portwright {
namespace {

struct PortVerbOptions {
  SourceVerbOptions source;
  TargetOptions targets;
  ToleranceOptions tolerance;
  std::string folder, eval, junit;
  double drift_limit = 2.0, bench_seconds = 20;
  bool no_remedies = false, no_simplify = false, resume = false, force = false;
};

Result<PortOptions> port_options(const PortVerbOptions& options, const std::vector<std::string>& command) {
  PW_TRY(all, targets(options.targets));
  PW_TRY(specs, input_specs(options.source.inputs));
  PW_TRY(axes, dynamic_axes(options.source.inputs));
  PW_TRY(limits, isolation(options.source.isolation));
  PW_CHECK(check(options.source.exporting));
  PW_CHECK(policy(options.tolerance, "fp32"));
  if (options.resume && options.force)
    return fail({Fault::usage, "options", "bad_option", "--resume and --force exclude each other", "--resume",
                 "--resume keeps valid evidence, --force starts anew", ""});
  PortOptions out;
  out.source = options.source.source;
  out.targets = all;
  out.folder = options.folder;
  out.inputs = specs;
  out.dynamic = axes;
  out.opset = options.source.exporting.opset;
  out.exporter = options.source.exporting.exporter;
  out.seed = options.source.inputs.seed;
  if (!options.eval.empty()) out.eval = options.eval;
  out.rtol = options.tolerance.rtol;
  out.atol = options.tolerance.atol;
  out.drift_limit = options.drift_limit;
  out.threads = options.source.isolation.threads;
  out.bench_seconds = options.bench_seconds;
  out.remedies = !options.no_remedies;
  out.simplify = !options.no_simplify;
  out.resume = options.resume;
  out.force = options.force;
  out.in_process = limits.in_process;
  out.timeout = limits.timeout;
  out.memory_bytes = limits.memory_bytes;
  out.python = options.source.python.interpreter;
  out.command = command;
  return out;
}

std::string targets_table(const Console& console, const Record& record) {
  Table table({"target", "verdict", "criterion", "#max abs", "precision used", "#latency p50", "#against eager"});
  for (const TargetRow& t : record.targets)
    table.add({{t.target, Tone::strong},
               {t.verdict, tone_of(t.verdict)},
               t.criterion.empty() ? "-" : t.criterion,
               or_dash(t.max_abs, format_error),
               t.precision_effective.empty() ? "-" : t.precision_effective,
               or_dash(t.p50, format_ms),
               t.speedup_text()});
  return table.text(console);
}

std::string issues_text(const Console& console, const Record& record) {
  std::string out;
  for (const IssueRow& issue : record.issues) {
    out += fmt::format("{} {} {}{}: {}\n", issue.id, console.paint(tone_of(issue.status), issue.status), issue.kind,
                       issue.target.empty() ? "" : " (" + issue.target + ")", issue.symptom);
    if (!issue.where.empty()) out += console.paint(Tone::faint, "   at " + issue.where) + "\n";
    if (!issue.fix.empty()) out += console.paint(Tone::faint, "   fix: " + issue.fix) + "\n";
  }
  for (const RemedyRow& remedy : record.remedies)
    out += fmt::format("remedy {} ({}): {}\n", console.paint(Tone::strong, remedy.name), remedy.about(), remedy.reason);
  return out;
}

std::string sentences(const Record& record) {
  std::string out;
  for (const TargetRow& target : record.targets) {
    for (const std::string* sentence : {&target.drift, &target.accuracy})
      if (!sentence->empty()) out += target.target + ": " + *sentence + "\n";
    if (!target.error.empty()) out += target.target + ": " + target.error + "\n";
  }
  return out;
}

std::string final_screen(const Console& console, const Record& record, const PortResult& result) {
  std::string out = targets_table(console, record) + sentences(record) + issues_text(console, record);
  out += verdict_line(console, result.verdict,
                      record.headline() + (record.wall_s ? ", in " + format_seconds(*record.wall_s) : ""));
  return out + console.paint(Tone::strong, result.report_html.string()) + "\n";
}

Result<ExitCode> port_source(Console& console, const PortVerbOptions& options,
                             const std::vector<std::string>& command) {
  PW_TRY(what, port_options(options, command));
  set_interruption_hint("what was done so far is in " + options.folder +
                        "; continue with the same command and --resume");
  Progress& progress = console.progress();
  what.progress = [&](const std::string& step, const std::string& detail) {
    progress.now(step + (step.empty() || detail.empty() ? "" : ": ") + detail);
  };
  auto result = port(what);
  if (!result) return fail(result.error());
  PW_TRY(record, parse_json(result->json, result->record));
  PW_TRY(issues, read_json_lines(result->record.parent_path() / "issues.jsonl"));
  if (!options.junit.empty()) PW_CHECK(write_atomically(options.junit, junit(record, issues)));
  console.document(record);
  console.print(final_screen(console, read_record(record, issues), *result));
  return exit_code(result->verdict);
}

}  // namespace

void add_port(Program& program) {
  const auto options = std::make_shared<PortVerbOptions>();
  Verb verb =
      program.add({"port",
                   "Take a PyTorch model to engines and prove them: export, check, compile, validate, measure, report",
                   {"portwright port torchvision:resnet18 --dynamic x.0=batch:1..8..32 --target onnxruntime:fp32 "
                    "--target openvino:bf16 -o out",
                    "portwright port net.py:make --target openvino:fp32 --eval data.py -o out --resume"}},
                  [options, &program](Console& console) { return port_source(console, *options, program.command()); });
  verb.argument("SOURCE", options->source.source, "PLUGIN:NAME, file.py:factory or file.onnx");
  add_options(verb, options->targets);
  verb.option("-o,--output", options->folder, "DIR", "The run folder", Need::required);
  add_options(verb, options->source);
  add_options(verb, options->tolerance);
  verb.option("--drift-limit", options->drift_limit, "RATIO",
              "Highest error, in multiples of PyTorch's own at that precision, that is honest loss");
  verb.option("--eval", options->eval, "FILE.py", "A file with dataset() and metric(outputs, targets)");
  verb.option("--bench-seconds", options->bench_seconds, "SECONDS", "Time for measuring; 0 leaves it out");
  verb.option("--junit", options->junit, "FILE", "Write JUnit XML for CI");
  verb.flag("--no-simplify", options->no_simplify, "Give engines the model as it was exported");
  verb.flag("--no-remedies", options->no_remedies, "Report breakages without trying to mend them");
  verb.flag("--resume", options->resume, "Continue a run, repeating only what has no valid evidence");
  verb.flag("--force", options->force, "Write into a folder that is not empty, and start anew");
}

}  // namespace portwright
