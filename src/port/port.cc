#include "portwright/port.h"

#include <chrono>

#include "port/run.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A folder that holds something else than an earlier run is never written into.
Status check_folder(const PortOptions& options) {
  std::error_code ignored;
  if (options.resume || options.force || !fs::exists(options.folder, ignored) || fs::is_empty(options.folder, ignored))
    return {};
  const bool earlier =
      fs::exists(options.folder / "port.json", ignored) || fs::exists(options.folder / "steps", ignored);
  const std::string what = earlier ? " holds an earlier run" : " is not empty";
  return fail({Fault::usage, "port", "folder_in_use", options.folder.string() + what, options.folder.string(),
               earlier ? "continue it with --resume, start anew with --force, or choose another folder"
                       : "choose another folder, or pass --force to write into this one",
               ""});
}

void forget_steps(const fs::path& folder) {
  std::error_code ignored;
  fs::remove_all(folder / "steps", ignored);
  fs::remove(folder / "port.json", ignored);
}

}  // namespace

Result<PortResult> port(const PortOptions& options) {
  if (options.targets.empty())
    return fail({Fault::usage, "port", "no_target", "no target is given", "--target",
                 "for example --target onnxruntime:fp32 --target openvino:fp32", ""});
  PW_CHECK(check_folder(options));
  for (const char* inner : {"steps", "logs", "engines"}) PW_CHECK(make_folders(options.folder / inner));
  PW_TRY(lock, FolderLock::take(options.folder));
  if (!options.resume) {
    forget_steps(options.folder);
    PW_CHECK(make_folders(options.folder / "steps"));
  }
  PortOptions absolute = options;
  std::error_code ignored;
  absolute.folder = fs::canonical(options.folder, ignored);
  return Run(std::move(absolute), std::move(lock)).execute();
}

Run::Run(PortOptions options, FolderLock lock)
    : options_(std::move(options)),
      lock_(std::move(lock)),
      folder_(options_.folder),
      waited_(std::make_shared<double>(0)),
      steps_(folder_, options_.resume, waited_),
      started_(now()) {
  std::set<std::string> wanted;
  for (const Target& target : options_.targets) wanted.insert(target.text);
  for (const Target& target : options_.targets) {
    // The fp32 build goes first, so that a wrong engine and honest loss are told apart.
    const Target exact =
        parse_target(target.engine + ":fp32" + (target.device == "cpu" ? "" : "@" + target.device)).value_or(target);
    if (target.reduced() && target.engine != "torch" && wanted.insert(exact.text).second)
      lanes_.push_back({exact, {}, nullptr, "", Verdict::not_run, true});
    lanes_.push_back({target, {}, nullptr, "", Verdict::not_run, false});
  }
  steps_.on_start = [this](const std::string& name) { note(name, ""); };
  steps_.on_record = [this] { return write_record(record()); };
}

void Run::note(const std::string& step, const std::string& what) const {
  if (options_.progress) options_.progress(step, what);
}

void Run::made_model(StepResult& step, const std::string& file) const {
  step.made.emplace_back(file);
  const std::string data = file + ".data";
  if (std::filesystem::exists(folder_ / data)) step.made.emplace_back(data);
}

void Run::remove_model(const std::string& file) const {
  std::error_code ignored;
  for (const std::string& name : {file, file + ".data"}) std::filesystem::remove(folder_ / name, ignored);
}

Isolation Run::isolation(const std::string& log) const {
  return {options_.in_process, options_.timeout, options_.memory_bytes, folder_ / "logs" / log, waited_};
}

const StepRecord* Run::find_step(const std::string& name) const {
  for (const StepRecord& record : steps_.all())
    if (record.name == name) return &record;
  return nullptr;
}

Result<PortResult> Run::execute() {
  PW_CHECK(build());
  if (find_step("build")->passed()) {
    PW_CHECK(export_model());
    if (model_ready_) {
      PW_CHECK(check());
      PW_CHECK(validate_model());
      PW_CHECK(simplify_model());
    }
    for (Lane& lane : lanes_) PW_CHECK(port_target(lane));
    PW_CHECK(evaluate());
    PW_CHECK(measure());
  }
  return finish();
}

}  // namespace portwright
