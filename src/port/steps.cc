#include "port/steps.h"

#include <algorithm>
#include <chrono>

#include "base/digest.h"
#include "base/files.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

std::string file_name(const std::string& step) {
  std::string name = step;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == ':' || c == '@' || c == '/'; }, '-');
  return name + ".json";
}

Result<Json> digests_of(const std::vector<fs::path>& files, const fs::path& base) {
  Json list = Json::array();
  for (const fs::path& file : files) {
    PW_TRY(digest, digest_file(file.is_absolute() ? file : base / file));
    list.push_back(Json{{"path", file.string()}, {"digest", digest}});
  }
  return list;
}

Json issues_json(const std::vector<Issue>& issues) {
  Json list = Json::array();
  for (const Issue& issue : issues) list.push_back(to_json(issue));
  return list;
}

StepResult failed(const Error& error, const std::string& name) {
  StepResult result;
  result.verdict = verdict_of(error);
  result.result["error"] = to_json(error);
  const auto colon = name.find(':');
  result.issues.push_back(
      issue_from(error, name.substr(0, colon), colon == std::string::npos ? "" : name.substr(colon + 1)));
  return result;
}

}  // namespace

Json remedy(const std::string& name, const std::string& reason, const std::string& proof) {
  return Json{{"name", name}, {"reason", reason}, {"proof", proof}};
}

Verdict StepRecord::verdict() const {
  return verdict_from(json.at("status").get<std::string>()).value_or(Verdict::not_run);
}

Steps::Steps(fs::path folder, bool resume, std::shared_ptr<double> waited)
    : folder_(std::move(folder)), resume_(resume), waited_(std::move(waited)) {}

bool Steps::holds(const Json& record, const std::string& key) const {
  if (record.value("key", std::string()) != key) return false;
  for (const char* list : {"made", "read"})
    for (const auto& file : record.value(list, Json::array())) {
      const fs::path path = file.at("path").get<std::string>();
      const auto digest = digest_file(path.is_absolute() ? path : folder_ / path);
      if (!digest || *digest != file.at("digest").get<std::string>()) return false;
    }
  return true;
}

Result<StepRecord> Steps::step(const std::string& name, const Json& depends_on, const std::string& log,
                               const std::function<Result<StepResult>()>& body) {
  const std::string key =
      digest(Json{{"step", name}, {"on", depends_on}}.dump(-1, ' ', false, Json::error_handler_t::replace));
  const fs::path file = folder_ / "steps" / file_name(name);
  if (resume_) {
    if (auto earlier = read_json(file); earlier && holds(*earlier, key)) {
      reused_seconds_ += earlier->value("seconds", 0.0);
      reused_waited_ += earlier->value("waited", 0.0);
      records_.push_back({name, key, std::move(*earlier), true});
      if (on_record) PW_CHECK(on_record());
      return records_.back();
    }
  }
  if (on_start) on_start(name);
  const auto start = Clock::now();
  const double waited_before = *waited_;
  auto outcome = body();
  if (!outcome && outcome.error().fault == Fault::defect) return fail(outcome.error());
  if (!outcome && outcome.error().code == "cannot_write") return fail(outcome.error());
  const StepResult result = outcome ? std::move(*outcome) : failed(outcome.error(), name);
  PW_TRY(made, digests_of(result.made, folder_));
  PW_TRY(read, digests_of(result.read, folder_));
  Json record = document("step");
  record["name"] = name;
  record["key"] = key;
  record["status"] = to_string(result.verdict);
  record["seconds"] = std::chrono::duration<double>(Clock::now() - start).count();
  record["waited"] = *waited_ - waited_before;
  record["log"] = log;
  record["result"] = result.result;
  record["issues"] = issues_json(result.issues);
  record["remedies"] = result.remedies;
  record["made"] = made;
  record["read"] = read;
  PW_CHECK(write_json(file, record));
  records_.push_back({name, key, std::move(record), false});
  if (on_record) PW_CHECK(on_record());
  return records_.back();
}

}  // namespace portwright
