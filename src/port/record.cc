// port.json, issues.jsonl and the reports: put together from step records alone, so that a run that was interrupted and
// resumed ends in the same record as one that was not.
#include <algorithm>
#include <chrono>

#include "base/machine.h"
#include "port/run.h"
#include "report/report.h"

namespace portwright {
namespace {

// Fields that belong to step records and engines, in the order of records.md.
Json target_entry(const Lane& lane, const StepRecord* compiled, const StepRecord* validated,
                  const StepRecord* evaluated, const StepRecord* measured) {
  Json entry{{"target", lane.target.text}, {"verdict", to_string(lane.verdict)},
             {"validate", Json()},         {"bench", Json()},
             {"speedup_vs_eager", Json()}, {"accuracy", Json()},
             {"remedies", Json::array()}};
  for (const StepRecord* record : {compiled, validated}) {
    if (record == nullptr) continue;
    for (const auto& remedy : record->json.at("remedies")) entry["remedies"].push_back(remedy);
    if (record->result().contains("error")) entry["error"] = record->result()["error"];
  }
  if (compiled != nullptr && compiled->result().contains("configuration")) entry["compile"] = compiled->result();
  if (validated != nullptr) entry["validate"] = validated->result();
  if (evaluated != nullptr)
    if (const auto& all = evaluated->result().value("targets", Json::object()); all.contains(lane.target.text))
      entry["accuracy"] = all[lane.target.text];
  if (measured == nullptr) return entry;
  for (const auto& bench : measured->result().value("targets", Json::array()))
    if (bench.at("target") == lane.target.text) entry["bench"] = bench;
  for (const auto& speedup : measured->result().value("speedup", Json::array()))
    if (speedup.at("target") == lane.target.text && speedup.at("baseline") == "torch:eager")
      entry["speedup_vs_eager"] = speedup;
  return entry;
}

Json step_entry(const StepRecord& record) {
  return Json{{"name", record.name},
              {"status", record.json.at("status")},
              {"seconds", record.json.at("seconds")},
              {"log", record.json.at("log")}};
}

std::vector<Json> numbered_issues(const std::vector<StepRecord>& records) {
  std::vector<Json> issues;
  for (const StepRecord& record : records)
    for (const auto& issue : record.json.at("issues")) {
      Json numbered{{"id", "I" + std::to_string(issues.size() + 1)}};
      numbered.update(issue);
      issues.push_back(std::move(numbered));
    }
  return issues;
}

Json all_remedies(const std::vector<StepRecord>& records) {
  Json list = Json::array();
  for (const StepRecord& record : records)
    for (Json remedy : record.json.at("remedies")) {
      remedy["step"] = record.name;
      list.push_back(std::move(remedy));
    }
  return list;
}

Json environment(const Json& python) {
  Json engines_json = Json::object();
  for (const auto& engine : engines()) {
    const auto version = engine->available();
    engines_json[engine->name()] = version ? Json(*version) : Json();
  }
  return Json{{"machine", to_json(this_machine())}, {"engines", engines_json}, {"python", python}};
}

}  // namespace

// The exported model's own verdict counts too: a target cannot be right when what it was made from is wrong.
Verdict overall(const std::vector<Lane>& lanes, const std::vector<StepRecord>& records) {
  Verdict verdict = Verdict::passed;
  for (const StepRecord& record : records)
    if (record.name.find(':') == std::string::npos) verdict = worse(verdict, record.verdict());
  for (const Lane& lane : lanes)
    if (!lane.hidden) verdict = worse(verdict, lane.verdict);
  return verdict;
}

Json Run::record() const {
  Json out = document("port");
  const StepRecord* build = find_step("build");
  const StepRecord* exported = find_step("export");
  out["verdict"] = to_string(overall(lanes_, steps_.all()));
  out["source"] = options_.source;
  out["source_digest"] = build ? build->result().value("source_digest", Json()) : Json();
  out["seed"] = options_.seed;
  out["command"] = options_.command;
  out["environment"] = environment(build ? build->result().value("python", Json()) : Json());
  out["inputs"] = build ? build->result().value("inputs", Json::array()) : Json::array();
  out["export"] = exported ? exported->result() : Json();
  out["check"] = find_step("check") ? find_step("check")->result() : Json();
  out["validate"] = find_step("validate") ? find_step("validate")->result() : Json();
  out["simplify"] = find_step("simplify") ? find_step("simplify")->result() : Json();
  out["steps"] = Json::array();
  for (const StepRecord& step : steps_.all()) out["steps"].push_back(step_entry(step));
  out["targets"] = Json::array();
  for (const Lane& lane : lanes_) {
    if (lane.hidden) continue;
    out["targets"].push_back(target_entry(lane, find_step("compile:" + lane.target.text),
                                          find_step("validate:" + lane.target.text), find_step("evaluate"),
                                          find_step("measure")));
  }
  if (const StepRecord* measured = find_step("measure")) out["bench"] = measured->result();
  out["issues"] = numbered_issues(steps_.all()).size();
  out["remedies"] = all_remedies(steps_.all());
  const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() -
                      started_ + steps_.reused_seconds();
  out["wall_s"] = wall;
  out["own_s"] = std::max(0.0, wall - *waited_ - steps_.reused_waited());
  return out;
}

Status Run::write_record(const Json& record) {
  std::string lines;
  for (const Json& issue : numbered_issues(steps_.all()))
    lines += issue.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  PW_CHECK(write_atomically(folder_ / "issues.jsonl", lines));
  return write_json(folder_ / "port.json", record);
}

Result<PortResult> Run::finish() {
  note("report", "");
  const auto issues = numbered_issues(steps_.all());
  const Json written = record();
  PortResult result{overall(lanes_, steps_.all()), folder_ / "port.json", folder_ / "report.html",
                    folder_ / "report.md", written.dump(2)};
  PW_CHECK(write_atomically(result.report_html, html(written, issues)));
  PW_CHECK(write_atomically(result.report_md, markdown(written, issues)));
  PW_CHECK(write_record(written));
  return result;
}

}  // namespace portwright
