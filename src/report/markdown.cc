#include <fmt/format.h>

#include "report/format.h"
#include "report/record.h"
#include "report/report.h"

namespace portwright {
namespace {

// Text inside a table cell or a paragraph: what Markdown or HTML would take for markup is escaped.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\n')
      out += ' ';
    else if (c == '<')
      out += "&lt;";
    else if (c == '|' || c == '*' || c == '`' || c == '\\' || c == '[' || c == '_')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) >= 0x20)
      out += c;
  }
  return out;
}

// Columns whose name starts with '#' hold numbers.
std::string table(std::initializer_list<std::string_view> columns, const std::vector<std::vector<std::string>>& rows) {
  std::string head = "|", rule = "|";
  for (std::string_view column : columns) {
    const bool numeric = column.starts_with('#');
    head += fmt::format(" {} |", column.substr(numeric ? 1 : 0));
    rule += numeric ? " ---: |" : " --- |";
  }
  std::string out = head + "\n" + rule + "\n";
  for (const auto& row : rows) {
    out += "|";
    for (const std::string& cell : row) out += " " + plain(cell) + " |";
    out += "\n";
  }
  return out + "\n";
}

std::string heading(const std::string& title) { return "## " + plain(title) + "\n\n"; }

std::string facts(const Facts& pairs) {
  std::string out;
  for (const auto& [name, value] : pairs) out += fmt::format("- {}: {}\n", plain(name), plain(value));
  return out + "\n";
}

std::string overview(const Record& record) {
  std::vector<std::vector<std::string>> rows;
  for (const TargetRow& t : record.targets)
    rows.push_back({t.target, t.verdict, t.criterion, or_dash(t.max_abs, format_error), t.precision_effective, t.device,
                    or_dash(t.p50, format_ms), t.speedup_text()});
  return table({"Target", "Verdict", "Criterion", "#Max abs error", "Precision used", "Device", "#Latency (median)",
                "#Against eager"},
               rows);
}

std::string issue_log(const Record& record) {
  if (record.issues.empty()) return "Nothing broke on the way.\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const IssueRow& i : record.issues)
    rows.push_back({i.id, i.status, i.kind, i.target, i.symptom, i.where, i.cause, i.fix});
  return table({"Issue", "Status", "Class", "Target", "Symptom", "Place", "Cause", "Fix"}, rows);
}

std::string remedies(const Record& record) {
  std::vector<std::vector<std::string>> rows;
  for (const RemedyRow& r : record.remedies) rows.push_back({r.name, r.about(), r.reason, r.proof});
  return table({"Remedy", "Target", "Why it was applied", "Proof"}, rows);
}

std::string simplified(const Record& record) {
  std::vector<std::vector<std::string>> rows;
  for (const PassRow& pass : record.passes)
    rows.push_back({pass.name, or_dash(pass.changes, format_count), pass.example});
  return plain(record.simplified) + "\n\n" +
         (rows.empty() ? "" : table({"Pass", "#Changes", "The first of them"}, rows));
}

std::string sizes(const TargetRow& target) {
  std::vector<std::vector<std::string>> rows;
  for (const SizeRow& size : target.sizes) {
    if (size.outputs.empty()) rows.push_back({size.axes, size.error, size.verdict, "-", "-", "-", "-"});
    for (const OutputRow& o : size.outputs)
      rows.push_back({size.axes, o.name, o.verdict, or_dash(o.max_abs, format_error), or_dash(o.max_rel, format_error),
                      or_dash(o.rmse, format_error), or_dash(o.top1_agreement, format_percent)});
  }
  if (rows.empty()) return "";
  return table({"Size", "Output", "Verdict", "#Max abs", "#Max rel", "#RMSE", "#Top-1 agrees"}, rows);
}

std::string evidence(const TargetRow& target) {
  std::string out = fmt::format("### {}: {}\n\n", plain(target.target), plain(target.verdict));
  if (!target.error.empty()) out += plain(target.error) + "\n\n";
  if (!target.hint.empty()) out += "Hint: " + plain(target.hint) + "\n\n";
  for (const std::string& line : target.vacuous) out += "Says nothing about correctness: " + plain(line) + ".\n\n";
  for (const std::string* line : {&target.drift, &target.noise_floor, &target.accuracy})
    if (!line->empty()) out += plain(*line) + "\n\n";
  return out + sizes(target);
}

std::string steps(const Record& record) {
  std::vector<std::vector<std::string>> rows;
  for (const StepRow& s : record.steps) rows.push_back({s.name, s.status, or_dash(s.seconds, format_seconds), s.log});
  return table({"Step", "Status", "#Time", "Log"}, rows);
}

// A fence longer than any run of backticks inside.
std::string code_block(const std::string& text) {
  std::string fence = "```";
  while (text.find(fence) != std::string::npos) fence += '`';
  return fence + "\n" + text + "\n" + fence + "\n\n";
}

}  // namespace

std::string markdown(const Json& port, const std::vector<Json>& issues) {
  const Record record = read_record(port, issues);
  std::string out = fmt::format("# {}: {}\n\n{}.\n\n", plain(record.source), plain(record.verdict), record.headline());
  if (!record.exported.empty()) out += facts(record.exported);
  out += heading("Targets") + overview(record) + heading("Issue log") + issue_log(record);
  if (!record.remedies.empty()) out += heading("Remedies") + remedies(record);
  if (!record.simplified.empty()) out += heading("Simplified graph") + simplified(record);
  out += heading("Evidence for each target");
  for (const TargetRow& target : record.targets) out += evidence(target);
  if (!record.steps.empty()) out += heading("Steps") + steps(record);
  if (!record.environment.empty()) out += heading("Environment") + facts(record.environment);
  out += heading("Repeat this run");
  if (!record.command.empty()) out += code_block(record.command);
  if (!record.identity.empty()) out += facts(record.identity);
  return out + "Made by Portwright " + plain(record.version) + "\n";
}

}  // namespace portwright
