#include "report/record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/format.h"

namespace portwright {
namespace {

const Json kNothing;

// A member, or null when there is none; never throws.
const Json& member(const Json& object, const char* key) {
  if (!object.is_object()) return kNothing;
  const auto it = object.find(key);
  return it == object.end() ? kNothing : *it;
}

const Json& list(const Json& object, const char* key) {
  static const Json kEmpty = Json::array();
  const Json& value = member(object, key);
  return value.is_array() ? value : kEmpty;
}

// Any value on one line: strings as they are, null as nothing, lists and objects as their values.
std::string plain(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return format_significant(value.get<double>());
  if (value.is_primitive()) return value.dump();
  std::string out;
  const char* separator = value.is_array() && !value.empty() && value.front().is_structured() ? "; " : ", ";
  for (const Json& item : value) out += (out.empty() ? "" : separator) + plain(item);
  return out;
}

std::string text(const Json& object, const char* key) { return plain(member(object, key)); }

std::optional<double> real(const Json& object, const char* key) {
  const Json& value = member(object, key);
  if (value.is_number() || value == "nan" || value == "inf" || value == "-inf") return number_from(value);
  return std::nullopt;
}

std::string spaced(std::string word) {
  std::replace(word.begin(), word.end(), '_', ' ');
  return word == "ir version" ? "IR version" : word;
}

// Nested objects as "cpu.features"-like names, in order.
void flatten(const Json& value, const std::string& prefix, Facts& facts) {
  for (const auto& [key, entry] : value.items()) {
    const std::string name = prefix.empty() ? spaced(key) : prefix + " " + spaced(key);
    if (entry.is_object())
      flatten(entry, name, facts);
    else if (key == "memory_bytes" && entry.is_number())
      facts.emplace_back(prefix.empty() ? "memory" : prefix + " memory", format_bytes(entry.get<double>()));
    else if (std::string shown = plain(entry); !shown.empty())
      facts.emplace_back(name, std::move(shown));
  }
}

Facts facts_of(const Json& value) {
  Facts facts;
  if (value.is_object()) flatten(value, "", facts);
  return facts;
}

OutputRow read_output(const Json& value) {
  OutputRow row;
  row.name = text(value, "name");
  row.verdict = text(value, "verdict");
  row.reason = text(value, "reason");
  row.type = text(value, "dtype") + "[" + text(value, "shape") + "]";
  row.max_abs = real(value, "max_abs");
  row.max_rel = real(value, "max_rel");
  row.rmse = real(value, "rmse");
  row.cosine = real(value, "cosine");
  row.snr_db = real(value, "snr_db");
  row.out_of_tolerance = real(value, "out_of_tolerance");
  row.count = real(value, "count");
  row.top1_agreement = real(value, "top1_agreement");
  return row;
}

// "message (where)" of an error object, or a plain string.
std::string error_text(const Json& error) {
  if (error.is_string()) return error.get<std::string>();
  return text(error, "message");
}

SizeRow read_size(const Json& value) {
  SizeRow row;
  const Json& axes = member(value, "axes");
  if (axes.is_object())
    for (const auto& [symbol, size] : axes.items())
      row.axes += (row.axes.empty() ? "" : ", ") + symbol + " " + plain(size);
  if (row.axes.empty()) row.axes = "as exported";
  row.verdict = text(value, "verdict");
  row.error = error_text(member(value, "error"));
  for (const Json& output : list(member(value, "metrics"), "outputs")) row.outputs.push_back(read_output(output));
  return row;
}

std::string noise_sentence(const Json& floor) {
  const auto max_abs = real(floor, "max_abs");
  if (!max_abs) return "";
  const std::string method = text(floor, "method");
  return fmt::format("Noise floor: {}{}. An error of that size says nothing about the engine.", format_error(*max_abs),
                     method.empty() ? "" : " (" + method + ")");
}

std::string drift_sentence(const Json& drift) {
  const auto ratio = real(drift, "ratio");
  if (!ratio) return "";
  const std::string engine = or_dash(real(drift, "engine_error"), format_error);
  const std::string torch = or_dash(real(drift, "torch_error"), format_error);
  const std::string verdict = text(drift, "verdict");
  const std::string numbers =
      fmt::format("its error (RMSE {}) is {} times what the same precision costs PyTorch itself (RMSE {})", engine,
                  format_significant(*ratio), torch);
  if (verdict == "honest_loss") return "Honest loss of precision: " + numbers + ".";
  if (verdict == "wrong_engine") return "The engine is wrong, not merely imprecise: " + numbers + ".";
  if (verdict == "no_loss") return "No loss worth naming: " + numbers + ".";
  return "Against the fp32 truth, " + numbers + ".";
}

std::string accuracy_clause(const std::string& name, const Json& reference, const Json& target) {
  const double before = number_from(reference), after = number_from(target), delta = after - before;
  const std::string change = delta == 0 ? "no difference" : (delta > 0 ? "+" : "") + format_significant(delta);
  return fmt::format("{} {} on the target, {} on the reference ({})", name, format_significant(after),
                     format_significant(before), change);
}

// One metric is a number, several are an object of numbers.
std::string accuracy_sentence(const Json& accuracy) {
  const Json& reference = member(accuracy, "reference");
  const Json& target = member(accuracy, "target");
  std::string clauses;
  if (!reference.is_object() && !reference.is_null()) clauses = accuracy_clause("metric", reference, target);
  if (reference.is_object())
    for (const auto& [name, value] : reference.items())
      clauses += (clauses.empty() ? "" : "; ") + accuracy_clause(name, value, member(target, name.c_str()));
  return clauses.empty() ? "" : "Evaluation: " + clauses + ".";
}

std::optional<Estimate> estimate(std::optional<double> value, const Json& interval) {
  if (!value) return std::nullopt;
  Estimate out{*value, {}, {}};
  if (interval.is_array() && interval.size() == 2 && interval[0].is_number() && interval[1].is_number()) {
    out.low = interval[0].get<double>();
    out.high = interval[1].get<double>();
  }
  return out;
}

// The target that a remedy belongs to: named, or part of the step's name ("compile:openvino:bf16").
std::string target_of(const Json& remedy) {
  const std::string step = text(remedy, "step");
  const auto colon = step.find(':');
  return remedy.contains("target") ? text(remedy, "target") : colon == std::string::npos ? "" : step.substr(colon + 1);
}

std::vector<RemedyRow> read_remedies(const Json& remedies, const std::string& target) {
  std::vector<RemedyRow> rows;
  for (const Json& value : remedies) {
    if (value.is_string())
      rows.push_back({value.get<std::string>(), target, "", ""});
    else
      rows.push_back({text(value, "name"), target.empty() ? target_of(value) : target, text(value, "reason"),
                      text(value, "proof")});
  }
  return rows;
}

void read_engine(const Json& engine, TargetRow& row) {
  row.engine = text(engine, "name");
  row.version = text(engine, "version");
  row.device = text(engine, "device");
  row.precision_asked = text(engine, "precision_asked");
  row.precision_effective = text(engine, "precision_effective");
  row.default_precision = text(engine, "default_precision");
}

void add_validation(const Json& validate, TargetRow& row) {
  row.criterion = text(validate, "criterion");
  read_engine(member(validate, "engine"), row);
  for (const Json& size : list(validate, "sizes")) {
    row.sizes.push_back(read_size(size));
    const Json& policy = member(member(size, "metrics"), "policy");
    if (!row.rtol) row.rtol = real(policy, "rtol");
    if (!row.atol) row.atol = real(policy, "atol");
    for (const OutputRow& output : row.sizes.back().outputs)
      if (output.max_abs && !(row.max_abs && *row.max_abs >= *output.max_abs)) row.max_abs = output.max_abs;
  }
  row.noise_floor = noise_sentence(member(validate, "noise_floor"));
  row.noise_floor_max_abs = real(member(validate, "noise_floor"), "max_abs");
  row.drift = drift_sentence(member(validate, "drift"));
  row.drift_ratio = real(member(validate, "drift"), "ratio");
  for (const Json& line : list(validate, "vacuous_outputs")) row.vacuous.push_back(plain(line));
  if (row.vacuous.empty() && member(validate, "vacuous") == true)
    row.vacuous.emplace_back("the outputs do not tell inputs apart");
}

void read_bench(const Json& bench, TargetRow& row) {
  const Json& latency = member(bench, "latency_ms");
  row.latency_ms = estimate(real(latency, "mean"), member(latency, "ci95"));
  row.p50 = real(latency, "p50");
  row.p90 = real(latency, "p90");
  row.p99 = real(latency, "p99");
  row.throughput = real(bench, "throughput");
  row.peak_memory = real(bench, "peak_memory");
  row.load_s = real(bench, "load_s");
  row.compile_s = real(bench, "compile_s");
  row.threads = real(bench, "threads");
  row.runs = real(bench, "runs");
}

TargetRow read_target(const Json& value) {
  TargetRow row;
  row.target = text(value, "target");
  row.verdict = text(value, "verdict");
  add_validation(member(value, "validate"), row);
  read_bench(member(value, "bench"), row);
  const Json& speedup = member(value, "speedup_vs_eager");
  row.speedup = speedup.is_object() ? estimate(real(speedup, "ratio"), member(speedup, "ci95"))
                                    : estimate(real(value, "speedup_vs_eager"), kNothing);
  row.accuracy = accuracy_sentence(member(value, "accuracy"));
  row.remedies = read_remedies(list(value, "remedies"), row.target);
  for (const Json* holder : {&value, &member(value, "validate")}) {
    const Json& error = member(*holder, "error");
    if (!row.error.empty() || error.is_null()) continue;
    row.error = error_text(error);
    row.hint = text(error, "hint");
  }
  return row;
}

// "node 'view' (Reshape), net.py:31, tensor y": whatever of it is known.
std::string where_text(const Json& where) {
  if (!where.is_object()) return plain(where);
  std::string out;
  for (const auto& [key, value] : where.items()) {
    const std::string shown = plain(value);
    if (!shown.empty()) out += (out.empty() ? "" : ", ") + spaced(key) + " " + shown;
  }
  return out;
}

IssueRow read_issue(const Json& value) {
  std::string evidence;
  for (const auto& [name, shown] : facts_of(member(value, "evidence")))
    evidence += fmt::format("{}{} {}", evidence.empty() ? "" : "; ", name, shown);
  return {text(value, "id"),
          text(value, "step"),
          text(value, "target"),
          text(value, "class"),
          text(value, "symptom"),
          text(value, "cause"),
          text(value, "fix"),
          text(value, "status"),
          where_text(member(value, "where")),
          evidence};
}

// Remedies of the whole run that no target lists already.
std::vector<RemedyRow> all_remedies(const Json& port, const std::vector<TargetRow>& targets) {
  std::vector<RemedyRow> all = read_remedies(list(port, "remedies"), "");
  for (const TargetRow& target : targets)
    for (const RemedyRow& remedy : target.remedies) {
      const auto same = [&](const RemedyRow& other) {
        return other.name == remedy.name && (other.target.empty() || other.target == remedy.target);
      };
      const auto known = std::find_if(all.begin(), all.end(), same);
      if (known == all.end())
        all.push_back(remedy);
      else if (known->target.empty())
        known->target = remedy.target;
    }
  return all;
}

std::string command_text(const Json& command) {
  if (!command.is_array()) return plain(command);
  std::string out;
  for (const Json& word : command) {
    const std::string bare = plain(word);
    const bool quote = bare.empty() || bare.find_first_of(" \t'\"()*?$&|;<>`\\") != std::string::npos;
    std::string shown = bare;
    if (quote) {
      shown = "'";
      for (const char c : bare) shown += c == '\'' ? std::string("'\\''") : std::string(1, c);
      shown += "'";
    }
    out += (out.empty() ? "" : " ") + shown;
  }
  return out;
}

// "45 of 69 nodes are left, equal to the exported model on 5 inputs (largest difference 0)."
std::string simplified_sentence(const Json& simplify) {
  const auto before = real(simplify, "nodes_before"), after = real(simplify, "nodes_after");
  const Json& proof = member(simplify, "proof");
  if (!before || !after || proof.is_null()) return "";
  if (text(proof, "verdict") != "passed") return "Not simplified: " + text(proof, "reason") + ".";
  std::string out = fmt::format("{} of {} nodes are left; equal to the exported model on {} (largest difference {}).",
                                format_count(*after), format_count(*before),
                                plural(static_cast<std::size_t>(real(proof, "inputs").value_or(0)), "input"),
                                or_dash(real(proof, "max_abs"), format_error));
  for (const Json& pass : list(simplify, "excluded_passes"))
    out += " The pass " + plain(pass) + " changed results and was left out.";
  return out;
}

std::vector<PassRow> read_passes(const Json& simplify) {
  std::vector<PassRow> rows;
  for (const Json& pass : list(simplify, "passes")) {
    const Json& details = list(pass, "details");
    if (real(pass, "changes").value_or(0) > 0)
      rows.push_back({text(pass, "name"), details.empty() ? "" : plain(details.front()), real(pass, "changes")});
  }
  return rows;
}

}  // namespace

TargetRow read_validation(const Json& validate) {
  TargetRow row;
  row.target = text(validate, "target");
  row.verdict = text(validate, "verdict");
  add_validation(validate, row);
  return row;
}

std::string TargetRow::speedup_text() const {
  if (!speedup) return "-";
  std::string out = format_ratio(speedup->value);
  if (speedup->low && speedup->high)
    out += fmt::format(" ({} to {})", format_ratio(*speedup->low), format_ratio(*speedup->high));
  return out;
}

std::size_t Record::passed() const {
  return static_cast<std::size_t>(
      std::count_if(targets.begin(), targets.end(), [](const TargetRow& t) { return t.verdict == "passed"; }));
}

std::string Record::headline() const {
  std::string out = fmt::format("{} of {} passed", passed(), plural(targets.size(), "target"));
  const auto helped = static_cast<std::size_t>(std::count_if(
      targets.begin(), targets.end(), [](const TargetRow& t) { return t.verdict == "passed" && !t.remedies.empty(); }));
  if (helped > 0) out += fmt::format(", {} of them through a remedy", helped);
  const auto of_model = std::count_if(remedies.begin(), remedies.end(), [](const auto& r) { return r.target.empty(); });
  if (of_model == 1) out += ", the model itself through a remedy";
  if (of_model > 1) out += fmt::format(", the model itself through {} remedies", of_model);
  for (const StepRow& step : steps)  // those of one target are told by its verdict
    if (step.name.find(':') == std::string::npos && step.status != "passed" && !step.status.empty())
      out += fmt::format("; step {}: {}", step.name, spaced(step.status));
  return out + "; " + (issues.empty() ? "no issues met" : plural(issues.size(), "issue") + " in the log");
}

Record read_record(const Json& port, const std::vector<Json>& issues) {
  Record record;
  record.source = text(port, "source");
  record.verdict = text(port, "verdict");
  record.command = command_text(member(port, "command"));
  record.version = text(port, "portwright");
  record.wall_s = real(port, "wall_s");
  record.own_s = real(port, "own_s");
  for (const Json& target : list(port, "targets")) record.targets.push_back(read_target(target));
  for (const Json& issue : issues) record.issues.push_back(read_issue(issue));
  record.remedies = all_remedies(port, record.targets);
  for (const Json& step : list(port, "steps"))
    record.steps.push_back({text(step, "name"), text(step, "status"), text(step, "log"), real(step, "seconds")});
  record.simplified = simplified_sentence(member(port, "simplify"));
  record.passes = read_passes(member(port, "simplify"));
  record.exported = facts_of(member(port, "export"));
  record.environment = facts_of(member(port, "environment"));
  for (const char* key : {"source_digest", "model_digest", "seed"})
    if (std::string shown = text(port, key); !shown.empty())
      record.identity.emplace_back(spaced(key), std::move(shown));
  return record;
}

}  // namespace portwright
