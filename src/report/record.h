// What every report shows, taken out of a port record once. Absent fields become empty or nullopt here, so that no
// writer has to ask again.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace portwright {

using Facts = std::vector<std::pair<std::string, std::string>>;  // name and value, in order of appearance

struct OutputRow {
  std::string name, verdict, reason;
  std::string type;  // "float32[8, 1000]"
  std::optional<double> max_abs, max_rel, rmse, cosine, snr_db, out_of_tolerance, count, top1_agreement;
};

struct SizeRow {
  std::string axes;  // "batch 8"; "as exported" for a static model
  std::string verdict;
  std::vector<OutputRow> outputs;
  std::string error;
};

struct RemedyRow {
  std::string name, target, reason, proof;
  std::string about() const { return target.empty() ? "the model" : target; }
};

struct Estimate {
  double value = 0;
  std::optional<double> low, high;  // of the 95 % interval
};

struct TargetRow {
  std::string target, verdict, criterion;
  std::string engine, version, device, precision_asked, precision_effective, default_precision;
  std::optional<double> rtol, atol;
  std::vector<SizeRow> sizes;
  std::optional<double> max_abs;             // the worst of all sizes and outputs
  std::string noise_floor, drift, accuracy;  // sentences; empty when not measured
  std::optional<double> noise_floor_max_abs, drift_ratio;
  std::vector<std::string> vacuous;
  std::string error, hint;
  std::optional<Estimate> latency_ms, speedup;  // latency: mean and interval; speed-up: against eager PyTorch
  std::optional<double> p50, p90, p99, throughput, peak_memory, load_s, compile_s, threads, runs;
  std::vector<RemedyRow> remedies;
  std::string speedup_text() const;  // "1.70x (1.64x to 1.78x)"; "-" when not measured
};

struct IssueRow {
  std::string id, step, target, kind, symptom, cause, fix, status, where, evidence;
};

struct PassRow {
  std::string name, example;  // what it did first
  std::optional<double> changes;
};

struct StepRow {
  std::string name, status, log;
  std::optional<double> seconds;
};

struct Record {
  std::string source, verdict, command, version;
  std::optional<double> wall_s, own_s;
  std::vector<TargetRow> targets;
  std::vector<IssueRow> issues;
  std::vector<RemedyRow> remedies;
  std::vector<StepRow> steps;
  Facts exported, environment, identity;
  std::string simplified;       // a sentence; empty when the model was not simplified
  std::vector<PassRow> passes;  // of the simplifier, that changed something
  std::size_t passed() const;
  std::string headline() const;  // "3 of 4 targets passed, 1 of them through a remedy; 2 issues in the log"
};

Record read_record(const Json& port, const std::vector<Json>& issues);
// Of a `validate` document alone.
TargetRow read_validation(const Json& validate);

}  // namespace portwright
