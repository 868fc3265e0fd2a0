// portwright check: is a model valid, all the way.
#include <fmt/format.h>

#include "cli/metrics_table.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "model/records.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"
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

struct CheckOptions {
  std::string file, sarif;
  std::vector<std::string> dynamic;
};

// Points of the ranges that were asked for, by the model's own symbols.
Result<std::vector<Size>> points(const Model& model, const CheckOptions& options) {
  if (options.dynamic.empty()) return std::vector<Size>();
  InputOptions asked;
  asked.dynamic = options.dynamic;
  PW_TRY(axes, dynamic_axes(asked));
  PW_TRY(inputs, inputs_of(model, {}, axes));
  for (DynamicAxis& axis : axes)
    for (const ValueInfo& input : model.inputs())
      if (input.name == axis.input) {
        const Dimension& dim = input.shape.at(static_cast<std::size_t>(axis.axis));
        if (dim.symbol.empty())
          return fail({Fault::usage, "options", "bad_dynamic_option",
                       "axis " + std::to_string(axis.axis) + " of '" + axis.input + "' is not dynamic in this model",
                       to_string(axis), "see portwright inspect", ""});
        axis.symbol = dim.symbol;
      }
  return ModelInputs{inputs.specs, axes}.sizes();
}

Result<ExitCode> check(Console& console, const CheckOptions& options) {
  Progress& progress = console.progress();
  progress.now("checking " + options.file);
  PW_TRY(model, Model::load(options.file));
  PW_TRY(sizes, points(model, options));
  std::vector<Finding> findings = model.check(sizes);
  for (Finding& limit : engine_limits(model)) findings.push_back(std::move(limit));
  Json out = to_json(findings);
  out["model"] = options.file;
  console.document(out);
  if (!options.sarif.empty()) PW_CHECK(write_json(options.sarif, sarif(findings, options.file)));
  std::size_t errors = 0;
  std::string text;
  for (const Finding& finding : findings) {
    errors += finding.severity == Severity::error ? 1 : 0;
    text += line(console, finding);
  }
  const Verdict verdict = errors == 0 ? Verdict::passed : Verdict::invalid_model;
  console.print(text + verdict_line(console, verdict,
                                    fmt::format("{} ({} errors, {} findings)", options.file, errors, findings.size())));
  return exit_code(verdict);
}

}  // namespace

void add_check(Program& program) {
  const auto options = std::make_shared<CheckOptions>();
  Verb verb = program.add({"check",
                           "Check validity, types, shapes and safety of a model; exit code 1 with errors",
                           {"portwright check model.onnx --dynamic x.0=batch:1..8..32",
                            "portwright check model.onnx --json | jq '.findings[].message'"}},
                          [options](Console& console) { return check(console, *options); });
  verb.argument("MODEL", options->file, "An ONNX file");
  verb.option("--dynamic", options->dynamic, "NAME.AXIS=SYMBOL[:MIN..OPT..MAX]",
              "A range in which shape arithmetic must hold; may be repeated; default: small batches");
  verb.option("--sarif", options->sarif, "FILE", "Write the findings as SARIF, for code scanning");
}

}  // namespace portwright
