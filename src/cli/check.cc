// portwright check: is a model valid, all the way.
#include <fmt/format.h>

#include "cli/metrics_table.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "model/records.h"
#include "portwright/model.h"

namespace portwright {
namespace {

const char* word(Severity severity) {
  switch (severity) {
    case Severity::error:
      return "error";
    case Severity::warning:
      return "warning";
    case Severity::note:
      break;
  }
  return "note";
}

// One line: "error  node 'mul_3': shapes do not fit (expected 3, received 4) [shape_mismatch]".
std::string line(const Console& console, const Finding& finding) {
  std::string out = console.paint(tone_of(word(finding.severity)), word(finding.severity)) + ": ";
  if (!finding.node.empty()) out += console.paint(Tone::strong, finding.node) + ": ";
  out += finding.message;
  if (!finding.expected.empty() || !finding.received.empty())
    out += fmt::format(" (expected {}, received {})", finding.expected, finding.received);
  out += console.paint(Tone::faint, " [" + finding.code + "]") + "\n";
  if (!finding.hint.empty()) out += console.paint(Tone::faint, "  hint: " + finding.hint) + "\n";
  return out;
}

Result<ExitCode> check(Console& console, const std::string& file) {
  Progress& progress = console.progress();
  progress.now("checking " + file);
  PW_TRY(model, Model::load(file));
  const std::vector<Finding> findings = model.check();
  Json out = to_json(findings);
  out["model"] = file;
  console.document(out);
  std::size_t errors = 0;
  std::string text;
  for (const Finding& finding : findings) {
    errors += finding.severity == Severity::error ? 1 : 0;
    text += line(console, finding);
  }
  const Verdict verdict = errors == 0 ? Verdict::passed : Verdict::invalid_model;
  console.print(
      text + verdict_line(console, verdict, fmt::format("{} ({} errors, {} findings)", file, errors, findings.size())));
  return exit_code(verdict);
}

}  // namespace

void add_check(Program& program) {
  const auto file = std::make_shared<std::string>();
  Verb verb =
      program.add({"check",
                   "Check validity, types, shapes and safety of a model; exit code 1 with errors",
                   {"portwright check model.onnx", "portwright check model.onnx --json | jq '.findings[].message'"}},
                  [file](Console& console) { return check(console, *file); });
  verb.argument("MODEL", *file, "An ONNX file");
}

}  // namespace portwright
