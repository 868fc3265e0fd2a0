#include <fmt/format.h>

#include "report/format.h"
#include "report/markup.h"
#include "report/record.h"
#include "report/report.h"

namespace portwright {
namespace {

// One suite while it is filled. JUnit counts failures (the answer is no), errors (no answer) and skips apart.
struct Suite {
  std::string name;
  Markup cases = {};
  int tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;

  void add(const std::string& title, const std::string& verdict, const std::string& message, double time = 0) {
    ++tests;
    seconds += time;
    cases += tag("testcase", {{"classname", name}, {"name", title}, {"time", fmt::format("{:.3f}", time)}},
                 outcome(verdict, message)) +
             "\n";
  }

  Markup outcome(const std::string& verdict, const std::string& message) {
    if (verdict == "passed" || verdict == "done" || verdict == "ok" || verdict == "reused") return {};
    if (verdict == "not_run" || verdict == "skipped" || verdict.empty()) {
      ++skipped;
      return tag("skipped", {{"message", message}});
    }
    const bool answered =
        verdict == "mismatch" || verdict == "vacuous" || verdict == "invalid_model" || verdict == "failed";
    ++(answered ? failures : errors);
    return tag(answered ? "failure" : "error", {{"type", verdict}, {"message", message.empty() ? verdict : message}});
  }

  Markup close() const {
    return tag("testsuite",
               {{"name", name},
                {"tests", std::to_string(tests)},
                {"failures", std::to_string(failures)},
                {"errors", std::to_string(errors)},
                {"skipped", std::to_string(skipped)},
                {"time", fmt::format("{:.3f}", seconds)}},
               "\n" + cases) +
           "\n";
  }
};

// "y: max abs 0.31, 12 % out of tolerance" of the outputs that did not pass.
std::string why(const SizeRow& size) {
  std::string out = size.error;
  for (const OutputRow& output : size.outputs) {
    if (output.verdict == "passed") continue;
    out += fmt::format("{}{}: {}, max abs {}", out.empty() ? "" : "; ", output.name,
                       output.reason.empty() ? output.verdict : output.reason, or_dash(output.max_abs, format_error));
  }
  return out;
}

Suite suite_of(const TargetRow& target) {
  Suite suite{target.target};
  for (const SizeRow& size : target.sizes) suite.add(size.axes, size.verdict, why(size));
  std::string message = target.error;
  for (const std::string& line : target.vacuous) message += (message.empty() ? "" : "; ") + line;
  suite.add("verdict", target.verdict, message);
  return suite;
}

}  // namespace

std::string junit(const Json& port, const std::vector<Json>& issues) {
  const Record record = read_record(port, issues);
  std::vector<Suite> suites;
  Suite steps{"steps"};
  for (const StepRow& step : record.steps) steps.add(step.name, step.status, step.log, step.seconds.value_or(0));
  if (steps.tests > 0) suites.push_back(std::move(steps));
  for (const TargetRow& target : record.targets) suites.push_back(suite_of(target));

  Markup body = "\n";
  int tests = 0, failures = 0, errors = 0;
  for (const Suite& suite : suites) {
    body += suite.close();
    tests += suite.tests;
    failures += suite.failures;
    errors += suite.errors;
  }
  const Markup root = tag("testsuites",
                          {{"name", "portwright " + record.source},
                           {"tests", std::to_string(tests)},
                           {"failures", std::to_string(failures)},
                           {"errors", std::to_string(errors)},
                           {"time", fmt::format("{:.3f}", record.wall_s.value_or(0))}},
                          body);
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + root.str() + "\n";
}

}  // namespace portwright
