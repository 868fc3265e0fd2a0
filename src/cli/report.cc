// portwright report: a run folder told again, in any of the formats.
#include "report/report.h"

#include "base/files.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/records.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

struct ReportOptions {
  std::string folder, format = "md", output;
};

Result<ExitCode> report(Console& console, const ReportOptions& options) {
  const fs::path folder = options.folder;
  if (!fs::exists(folder / "port.json"))
    return fail({Fault::input, "report", "no_such_file", "no port.json in " + options.folder, options.folder,
                 "name a folder that portwright port wrote", ""});
  PW_TRY(port, read_json(folder / "port.json"));
  PW_TRY(issues, read_json_lines(folder / "issues.jsonl"));
  const std::string format = console.json() ? "json" : options.format;
  std::string text;
  if (format == "html")
    text = html(port, issues);
  else if (format == "junit")
    text = junit(port, issues);
  else if (format == "md")
    text = markdown(port, issues);
  else
    text = port.dump(2) + "\n";
  if (options.output.empty())
    console.product(text);
  else
    PW_CHECK(write_atomically(options.output, text));
  return ExitCode::passed;
}

}  // namespace

void add_report(Program& program) {
  const auto options = std::make_shared<ReportOptions>();
  Verb verb = program.add({"report",
                           "Tell a run folder as HTML, Markdown, JSON or JUnit XML",
                           {"portwright report out", "portwright report out --format junit -o port.xml"}},
                          [options](Console& console) { return report(console, *options); });
  verb.argument("DIR", options->folder, "A folder that portwright port wrote");
  verb.choice("-f,--format", options->format, {"html", "md", "json", "junit"}, "How to tell it");
  verb.option("-o,--output", options->output, "FILE", "Write into a file instead of standard output");
}

}  // namespace portwright
