// The page: sections from top to bottom are the functions from bottom to top. Looks are page/page.css, charts
// page/page.js.
#include <fmt/format.h>

#include <cmath>

#include "report/assets.h"
#include "report/format.h"
#include "report/markup.h"
#include "report/record.h"
#include "report/report.h"

namespace portwright {
namespace {

// "passed" is good, what says nothing about the model is neutral, the rest is bad; the word itself is always written.
std::string tone(const std::string& word) {
  if (word == "passed" || word == "ok" || word == "done" || word == "fixed" || word == "reused") return "good";
  if (word == "vacuous" || word == "open" || word == "environment") return "warn";
  if (word == "not_run" || word == "accepted" || word == "skipped" || word.empty()) return "neutral";
  return "bad";
}

std::string words(std::string word) {
  for (char& c : word)
    if (c == '_') c = ' ';
  return word;
}

Markup badge(const std::string& word) {
  return word.empty() ? Markup() : tag("span", {{"class", "badge " + tone(word)}}, words(word));
}

Markup cell(const Markup& content) { return tag("td", content); }
Markup number_cell(const Markup& content) { return tag("td", {{"class", "n"}}, content); }
Markup code(const std::string& text) { return text.empty() ? Markup() : tag("code", text); }

Markup row(std::initializer_list<Markup> cells) {
  Markup out;
  for (const Markup& one : cells) out += one;
  return tag("tr", out) + "\n";
}

// Columns whose name starts with '#' hold numbers.
Markup table(std::initializer_list<std::string_view> columns, const Markup& rows) {
  Markup head;
  for (std::string_view column : columns) {
    const bool numeric = column.starts_with('#');
    head += tag("th", {{"class", numeric ? "n" : ""}, {"scope", "col"}}, column.substr(numeric ? 1 : 0));
  }
  return tag("div", {{"class", "scroll"}}, tag("table", tag("thead", tag("tr", head)) + tag("tbody", rows)));
}

Markup section(const char* id, const std::string& title, const Markup& content) {
  return tag("section", {{"id", id}}, tag("h2", title) + "\n" + content) + "\n";
}

Markup facts(const Facts& pairs) {
  Markup out;
  for (const auto& [name, value] : pairs) out += tag("div", tag("dt", name) + tag("dd", value));
  return pairs.empty() ? Markup() : tag("dl", {{"class", "facts"}}, out);
}

std::string interval(const Estimate& estimate, std::string (*format)(double)) {
  if (!estimate.low || !estimate.high) return "";
  return format(*estimate.low) + " to " + format(*estimate.high);
}

Markup with_note(const std::string& main, const std::string& note) {
  return Markup(main) + (note.empty() ? Markup() : tag("small", note));
}

Markup speedup_cell(const TargetRow& target) {
  if (!target.speedup) return "-";
  return with_note(format_ratio(target.speedup->value), interval(*target.speedup, format_ratio));
}

Markup latency_cell(const TargetRow& target) {
  if (!target.p50) return "-";
  return with_note(format_ms(*target.p50), target.p99 ? "p99 " + format_ms(*target.p99) : "");
}

Markup overview(const Record& record) {
  Markup rows;
  for (const TargetRow& target : record.targets) {
    const std::string asked = target.precision_asked == target.precision_effective ? "" : target.precision_asked;
    rows += row({cell(tag("a", {{"href", "#" + target.target}}, target.target)), cell(badge(target.verdict)),
                 cell(target.criterion), number_cell(or_dash(target.max_abs, format_error)),
                 cell(with_note(target.precision_effective, asked.empty() ? "" : "asked: " + asked)),
                 cell(target.device), number_cell(latency_cell(target)), number_cell(speedup_cell(target))});
  }
  return table({"Target", "Verdict", "Criterion", "#Max abs error", "Precision used", "Device", "#Latency (median)",
                "#Against eager"},
               rows);
}

Markup chart(const char* id, const char* title, const char* caption, std::size_t rows) {
  const std::string height = fmt::format("height: {}px", 84 + 40 * rows);
  return tag("figure", {{"class", "card"}},
             tag("figcaption", tag("h3", title) + tag("p", caption)) +
                 tag("div", {{"class", "plot"}, {"style", height}},
                     tag("canvas", {{"id", id}, {"role", "img"}, {"aria-label", title}})));
}

// What page.js draws. "<" is escaped, so that no name can end the script element.
Markup chart_data(const Record& record) {
  Json targets = Json::array();
  for (const TargetRow& target : record.targets) {
    Json errors = Json::object();  // the worst of all sizes for each output
    for (const SizeRow& size : target.sizes)
      for (const OutputRow& output : size.outputs) {
        if (!output.max_abs) continue;
        const Json& known = errors.contains(output.name) ? errors[output.name] : Json(-1.0);
        if (*output.max_abs > known.get<double>()) errors[output.name] = *output.max_abs;
      }
    Json entry{{"name", target.target}, {"errors", errors}};
    if (target.atol) entry["atol"] = *target.atol;
    if (target.noise_floor_max_abs) entry["noise"] = *target.noise_floor_max_abs;
    if (target.latency_ms) entry["mean"] = target.latency_ms->value;
    if (target.latency_ms && target.latency_ms->low && target.latency_ms->high)
      entry["ci95"] = {*target.latency_ms->low, *target.latency_ms->high};
    targets.push_back(std::move(entry));
  }
  std::string json;
  for (const char c : targets.dump(-1, ' ', false, Json::error_handler_t::replace))
    json += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return tag("script", {{"type", "application/json"}, {"id", "chart-data"}}, Markup::trusted(json));
}

Markup charts(const Record& record) {
  Markup out;
  bool errors = false, latencies = false;
  for (const TargetRow& target : record.targets) {
    errors = errors || target.max_abs.has_value();
    latencies = latencies || target.latency_ms.has_value();
  }
  const std::size_t rows = record.targets.size();
  if (errors)
    out += chart("error-chart", "Largest error of each output",
                 "Against PyTorch, worst of all sizes, logarithmic. Ticks: noise floor; dashes: tolerance.", rows);
  if (latencies) out += chart("latency-chart", "Latency", "Mean of one run with its 95 % interval.", rows);
  if (out.str().empty()) return out;
  return tag("div", {{"class", "charts"}}, out) + chart_data(record) + "\n";
}

Markup output_cells(const OutputRow& output) {
  const std::string share =
      output.out_of_tolerance && output.count && *output.count > 0
          ? (*output.out_of_tolerance == 0 ? "0" : format_percent(*output.out_of_tolerance / *output.count))
          : "-";
  return cell(code(output.name) + tag("small", output.type)) +
         cell(output.reason.empty() ? badge(output.verdict)
                                    : badge(output.verdict) + tag("small", words(output.reason))) +
         number_cell(or_dash(output.max_abs, format_error)) + number_cell(or_dash(output.max_rel, format_error)) +
         number_cell(or_dash(output.rmse, format_error)) +
         number_cell(or_dash(output.cosine,
                             [](double v) {
                               return v > 0.999995 ? fmt::format("1 - {}", format_error(std::max(0.0, 1 - v)))
                                                   : fmt::format("{:.5f}", v);
                             })) +
         number_cell(
             or_dash(output.snr_db,
                     [](double v) { return std::isfinite(v) ? fmt::format("{:.1f} dB", v) : std::string("exact"); })) +
         number_cell(share) + number_cell(or_dash(output.top1_agreement, format_percent));
}

Markup sizes(const TargetRow& target) {
  Markup rows;
  for (const SizeRow& size : target.sizes) {
    if (size.outputs.empty())
      rows += row({cell(size.axes), cell(""), cell(badge(size.verdict)), tag("td", {{"colspan", "7"}}, size.error)});
    for (const OutputRow& output : size.outputs)
      rows += row({cell(&output == &size.outputs.front() ? size.axes : ""), output_cells(output)});
  }
  if (target.sizes.empty()) return {};
  return table({"Size", "Output", "Verdict", "#Max abs", "#Max rel", "#RMSE", "#Cosine", "#SNR", "#Out of tolerance",
                "#Top-1 agrees"},
               rows);
}

// A number such as 2.8e-07 stays on one line: a word joiner follows its hyphen.
Markup sentence(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '-' && i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9') out += "\u2060";
  }
  return tag("p", out);
}

Markup sentences(const TargetRow& target) {
  Markup out;
  if (!target.error.empty())
    out += tag("p", {{"class", "problem"}},
               target.error + (target.hint.empty() ? Markup() : tag("small", "Hint: " + target.hint)));
  for (const std::string& line : target.vacuous)
    out += tag("p", {{"class", "problem"}}, "Says nothing about correctness: " + line + ".");
  for (const std::string* line : {&target.drift, &target.noise_floor, &target.accuracy})
    if (!line->empty()) out += sentence(*line);
  return out;
}

Facts target_facts(const TargetRow& target) {
  Facts out;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && value != "-") out.emplace_back(name, value);
  };
  add("engine", target.engine + (target.version.empty() ? "" : " " + target.version));
  add("device", target.device);
  add("precision asked", target.precision_asked);
  add("precision used", target.precision_effective);
  add("engine's own default", target.default_precision);
  if (target.rtol && target.atol)
    add("tolerance", format_error(*target.atol) + " + " + format_error(*target.rtol) + " |r|");
  add("p50 / p90 / p99", target.p50 ? or_dash(target.p50, format_ms) + " / " + or_dash(target.p90, format_ms) + " / " +
                                          or_dash(target.p99, format_ms)
                                    : "");
  add("throughput", target.throughput ? format_significant(*target.throughput) + " items/s" : "");
  add("peak memory", or_dash(target.peak_memory, format_bytes));
  add("load", or_dash(target.load_s, format_seconds));
  add("compile", or_dash(target.compile_s, format_seconds));
  add("threads", or_dash(target.threads, format_count));
  add("timed runs", or_dash(target.runs, format_count));
  return out;
}

Markup target_details(const TargetRow& target) {
  const Markup title = tag("summary", tag("h3", target.target) + badge(target.verdict));
  const Markup body = sentences(target) + sizes(target) + facts(target_facts(target));
  return tag("details", {{"class", "card"}, {"id", target.target}, {"open", "open"}}, title + body) + "\n";
}

Markup issue_log(const Record& record) {
  if (record.issues.empty()) return tag("p", {{"class", "quiet"}}, "Nothing broke on the way.");
  Markup rows;
  for (const IssueRow& issue : record.issues)
    rows += row({cell(with_note(issue.id, issue.step)), cell(badge(issue.status)), cell(issue.kind), cell(issue.target),
                 cell(Markup(issue.symptom) + (issue.where.empty() ? Markup() : tag("small", code(issue.where)))),
                 cell(issue.cause),
                 cell(with_note(issue.fix, issue.evidence.empty() ? "" : "Evidence: " + issue.evidence))});
  return table({"Issue", "Status", "Class", "Target", "Symptom and place", "Cause", "Fix and evidence"}, rows);
}

Markup remedies(const Record& record) {
  Markup rows;
  for (const RemedyRow& remedy : record.remedies)
    rows += row({cell(code(remedy.name)), cell(remedy.about()), cell(remedy.reason), cell(remedy.proof)});
  return table({"Remedy", "Target", "Why it was applied", "Proof"}, rows);
}

Markup simplified(const Record& record) {
  Markup rows;
  for (const PassRow& pass : record.passes)
    rows += row({cell(code(pass.name)), number_cell(or_dash(pass.changes, format_count)), cell(pass.example)});
  return tag("p", record.simplified) +
         (record.passes.empty() ? Markup() : table({"Pass", "#Changes", "The first of them"}, rows));
}

Markup steps(const Record& record) {
  Markup rows;
  for (const StepRow& step : record.steps)
    rows += row({cell(step.name), cell(badge(step.status)), number_cell(or_dash(step.seconds, format_seconds)),
                 cell(step.log.empty() ? Markup() : tag("a", {{"href", step.log}}, step.log))});
  return table({"Step", "Status", "#Time", "Log"}, rows);
}

Markup banner(const Record& record) {
  Facts summary = record.exported;
  if (record.wall_s) summary.emplace_back("wall time", format_seconds(*record.wall_s));
  if (record.wall_s && record.own_s && *record.wall_s > 0)
    summary.emplace_back("of it Portwright's own", fmt::format("{} ({})", format_seconds(*record.own_s),
                                                               format_percent(*record.own_s / *record.wall_s)));
  return tag("header", {{"class", "banner " + tone(record.verdict)}},
             tag("p", {{"class", "kicker"}}, "Portwright report") + tag("h1", record.source) +
                 tag("p", {{"class", "verdict"}}, badge(record.verdict) + " " + record.headline() + ".") +
                 facts(summary)) +
         "\n";
}

Markup repeat(const Record& record) {
  const Markup command = record.command.empty() ? Markup() : tag("pre", tag("code", record.command));
  return command + facts(record.identity);
}

Markup page(const Record& record) {
  Markup out = banner(record);
  out += section("targets", "Targets", overview(record) + charts(record));
  out += section("issues", "Issue log", issue_log(record));
  if (!record.remedies.empty()) out += section("remedies", "Remedies", remedies(record));
  if (!record.simplified.empty()) out += section("simplified", "Simplified graph", simplified(record));
  Markup details;
  for (const TargetRow& target : record.targets) details += target_details(target);
  out += section("evidence", "Evidence for each target", details);
  if (!record.steps.empty()) out += section("steps", "Steps", steps(record));
  if (!record.environment.empty()) out += section("environment", "Environment", facts(record.environment));
  out += section("repeat", "Repeat this run", repeat(record));
  return out + tag("footer", "Made by Portwright " + record.version);
}

Markup asset(std::string_view text) { return Markup::trusted(std::string(text)); }

}  // namespace

std::string html(const Json& port, const std::vector<Json>& issues) {
  const Record record = read_record(port, issues);
  const Markup head = Markup::trusted(
                          "<meta charset=\"utf-8\">\n"
                          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n") +
                      tag("title", record.source + ": " + words(record.verdict)) + "\n" +
                      tag("style", asset(assets::page_css)) + "\n";
  const Markup scripts = tag("script", asset(assets::chart_js)) + "\n" + tag("script", asset(assets::page_js));
  return "<!doctype html>\n" +
         tag("html", {{"lang", "en"}},
             tag("head", head) + "\n" + tag("body", tag("main", page(record)) + "\n" + scripts))
             .str() +
         "\n";
}

}  // namespace portwright
