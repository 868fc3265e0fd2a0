// portwright compare: metrics of two .npz files, and a verdict.
#include "portwright/compare.h"

#include "cli/metrics_table.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "portwright/npz.h"
#include "verify/records.h"

namespace portwright {
namespace {

struct CompareOptions {
  std::string actual, reference, precision = "fp32";
  ToleranceOptions tolerance;
  int threads = 0;
};

Result<ExitCode> compare_files(Console& console, const CompareOptions& options) {
  Progress& progress = console.progress();
  progress.now("comparing " + options.actual + " with " + options.reference);
  PW_CHECK(check_threads(options.threads));
  PW_TRY(limits, policy(options.tolerance, options.precision));
  PW_TRY(actual, map_npz(options.actual));
  PW_TRY(reference, map_npz(options.reference));
  const Comparison comparison = compare(actual, reference, limits, options.threads);
  Json out = document("compare");
  out.update(to_json(comparison));
  console.document(out);
  console.print(metrics_table(console, {{"", &comparison}}) + verdict_line(console, comparison.verdict, ""));
  return exit_code(comparison.verdict);
}

}  // namespace

void add_compare(Program& program) {
  const auto options = std::make_shared<CompareOptions>();
  Verb verb = program.add({"compare",
                           "Compare two .npz files: metrics for each output, and a verdict",
                           {"portwright compare outputs.npz reference.npz",
                            "portwright compare outputs.npz reference.npz --rtol 1e-2 --atol 1e-4 --json"}},
                          [options](Console& console) { return compare_files(console, *options); });
  verb.argument("ACTUAL", options->actual, "Outputs to judge, an .npz");
  verb.argument("REFERENCE", options->reference, "Outputs to trust, an .npz");
  add_options(verb, options->tolerance);
  verb.choice("--precision", options->precision, {"fp32", "fp16", "bf16", "int8"},
              "Take the tolerances of this precision");
  verb.option("--threads", options->threads, "N", "Threads for large arrays; 0: all cores");
}

}  // namespace portwright
