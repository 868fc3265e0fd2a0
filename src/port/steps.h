// Steps with evidence. A step's key is the digest of all that it depends on; its record lies in DIR/steps/NAME.json,
// written atomically when the step has ended, with the digests of the files that it made and read.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/json.h"
#include "port/issue.h"
#include "portwright/verdict.h"

namespace portwright {

struct StepResult {
  Verdict verdict = Verdict::passed;
  Json result = Json::object();
  std::vector<std::filesystem::path> made;  // inside the run folder
  std::vector<std::filesystem::path> read;  // outside of it, for example the user's Python files
  std::vector<Issue> issues;
  Json remedies = Json::array();  // of remedy()
};
Json remedy(const std::string& name, const std::string& reason, const std::string& proof);

// A step that has ended, in this run or in an earlier one.
struct StepRecord {
  std::string name, key;
  Json json;
  bool reused = false;
  Verdict verdict() const;
  const Json& result() const { return json.at("result"); }
  bool passed() const { return verdict() == Verdict::passed; }
};

class Steps {
 public:
  // `waited` is the time that belongs to others (WorkerCommand::waited); `resume` allows reuse.
  Steps(std::filesystem::path folder, bool resume, std::shared_ptr<double> waited);

  // Gives the earlier record when its key and all its digests still hold, else runs the body and records what it gives.
  // An Error of the body is recorded as a failed step with an issue, and is not an error of step() itself; errors of
  // step() are those of writing the record.
  Result<StepRecord> step(const std::string& name, const Json& depends_on, const std::string& log,
                          const std::function<Result<StepResult>()>& body);

  const std::vector<StepRecord>& all() const { return records_; }
  double reused_seconds() const { return reused_seconds_; }
  double reused_waited() const { return reused_waited_; }

  // Called before a step runs (not when it is reused) and after each record.
  std::function<void(const std::string& name)> on_start;
  std::function<Status()> on_record;

 private:
  bool holds(const Json& record, const std::string& key) const;
  std::filesystem::path folder_;
  bool resume_;
  std::shared_ptr<double> waited_;
  std::vector<StepRecord> records_;
  double reused_seconds_ = 0, reused_waited_ = 0;
};

}  // namespace portwright
