// portwright doctor: what is installed, which engines and devices work, and what the basic job lacks.
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/machine.h"
#include "cli/options.h"
#include "cli/program.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "engine/torch/source.h"
#include "portwright/engine.h"
#include "report/format.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

struct EngineState {
  std::string name;
  Result<std::string> version;
  std::vector<std::string> devices, precisions;
};

struct Findings {
  Machine machine;
  std::string interpreter;
  Result<Json> python = Json();  // the worker's answer to hello
  std::vector<EngineState> engines;
  std::string compiler;  // torch:compile needs one
  std::vector<Error> missing;
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

// The first program of this name on PATH.
std::string on_path(const std::string& name) {
  const std::string path = variable("PATH");
  std::error_code ignored;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find(':', at), path.size());
    const fs::path file = fs::path(path.substr(at, end - at)) / name;
    if (fs::is_regular_file(file, ignored)) return file.string();
    at = end + 1;
  }
  return "";
}

std::string find_compiler() {
  if (auto named = variable("CXX"); !named.empty()) return named;
  for (const char* name : {"g++", "clang++"})
    if (auto found = on_path(name); !found.empty()) return found;
  return "";
}

std::string cache_folder() {
  if (auto named = variable("PORTWRIGHT_CACHE"); !named.empty()) return named;
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/portwright";
  return variable("HOME") + "/.cache/portwright";
}

Result<Json> ask_python(const std::string& interpreter) {
  PW_TRY(worker, start_python(interpreter, "", WorkerLimits{std::chrono::seconds(60), 0}));
  return worker.call("hello", Json::object());
}

Error lacks(const std::string& what, const std::string& hint) {
  return {Fault::environment, "doctor", "environment", what, "", hint, ""};
}

void look_at_python(const std::string& asked, Findings& found) {
  found.interpreter = find_python(asked);
  found.python = ask_python(found.interpreter);
  if (!found.python) {
    found.missing.push_back(
        lacks("the Python interpreter " + found.interpreter + " does not answer: " + found.python.error().message,
              "run scripts/setup, or name an interpreter with --python or PORTWRIGHT_PYTHON"));
    return;
  }
  for (const char* package : {"torch", "onnxscript", "numpy"})
    if (!found.python->value("versions", Json::object()).value(package, Json()).is_string())
      found.missing.push_back(lacks(std::string("Python has no package ") + package,
                                    found.interpreter + " -m pip install " + package + ", or run scripts/setup"));
}

Findings look(const std::string& python, Progress& progress) {
  Findings found;
  found.machine = this_machine();
  progress.now("asking Python");
  look_at_python(python, found);
  for (const auto& engine : engines()) {
    progress.now("asking " + engine->name());
    EngineState state{engine->name(), engine->available(), {}, {}};
    if (state.version) {
      state.devices = engine->devices();
      state.precisions = engine->precisions();
    } else if (engine->name() == "onnxruntime") {  // the judge of every bare model
      found.missing.push_back(state.version.error());
    }
    found.engines.push_back(std::move(state));
  }
  found.compiler = find_compiler();
  return found;
}

Json to_json(const EngineState& state) {
  Json out{{"name", state.name}, {"works", state.version.has_value()}};
  out["version"] = state.version ? Json(*state.version) : Json();
  out["devices"] = state.devices;
  out["precisions"] = state.precisions;
  out["reason"] = state.version ? Json() : Json(state.version.error().message);
  out["hint"] = state.version ? Json() : Json(state.version.error().hint);
  return out;
}

Json record(const Findings& found) {
  Json out = document("doctor");
  out["verdict"] = to_string(found.missing.empty() ? Verdict::passed : Verdict::environment);
  out["onnx"] = PORTWRIGHT_ONNX_VERSION;
  out["machine"] = to_json(found.machine);
  out["python"] = Json{{"interpreter", found.interpreter}};
  if (found.python)
    out["python"].update(*found.python);
  else
    out["python"]["error"] = to_json(found.python.error());
  out["engines"] = Json::array();
  for (const EngineState& state : found.engines) out["engines"].push_back(to_json(state));
  out["cache"] = cache_folder();
  out["compiler"] = found.compiler;
  out["missing"] = Json::array();
  for (const Error& error : found.missing)
    out["missing"].push_back(Json{{"message", error.message}, {"hint", error.hint}});
  return out;
}

void add_python(Table& table, const Findings& found) {
  const Tone faint = Tone::faint;
  if (!found.python) {
    table.add({{"python", faint}, {"does not work: " + found.interpreter, Tone::bad}});
    return;
  }
  table.add({{"python", faint}, found.python->value("python", std::string()) + "  " + found.interpreter});
  const Json versions = found.python->value("versions", Json::object());
  for (const auto& [package, version] : versions.items())
    table.add({{"  " + package, faint},
               version.is_string() ? Cell(version.get<std::string>()) : Cell("not installed", Tone::warn)});
}

void add_engine(Table& table, const EngineState& state) {
  if (!state.version) {
    table.add({{state.name, Tone::faint}, {"absent: " + state.version.error().message, Tone::warn}});
    table.add({"", {"hint: " + state.version.error().hint, Tone::faint}});
    return;
  }
  table.add(
      {{state.name, Tone::faint},
       fmt::format("{}  on {}; computes in {}", *state.version, joined(state.devices), joined(state.precisions))});
}

std::string human(const Console& console, const Findings& found) {
  const Machine& machine = found.machine;
  Table table({});
  const Tone faint = Tone::faint;
  table.add({{"portwright", faint}, document("doctor")["portwright"].get<std::string>()});
  table.add({{"onnx", faint}, PORTWRIGHT_ONNX_VERSION});
  for (const EngineState& state : found.engines) add_engine(table, state);
  add_python(table, found);
  table.add({{"compiler", faint},
             found.compiler.empty() ? Cell("none: torch:compile will not work (apt-get install g++)", Tone::warn)
                                    : Cell(found.compiler)});
  table.add({{"cpu", faint}, fmt::format("{}, {} cores", machine.cpu, machine.cores)});
  table.add(
      {{"features", faint}, machine.cpu_features.empty() ? "none that matter here" : joined(machine.cpu_features)});
  table.add({{"memory", faint}, format_bytes(static_cast<double>(machine.memory_bytes))});
  table.add({{"system", faint}, machine.system});
  table.add({{"cache", faint}, cache_folder()});
  std::string out = table.text(console);
  for (const Error& error : found.missing)
    out += console.paint(Tone::bad, "missing: ") + error.message + "\n" + "hint: " + error.hint + "\n";
  return out + (found.missing.empty() ? console.paint(Tone::good, "ready") + ": the basic job works here\n" : "");
}

Result<ExitCode> doctor(Console& console, const std::string& python) {
  Progress& progress = console.progress();
  const Findings found = look(python, progress);
  console.document(record(found));
  console.print(human(console, found));
  return found.missing.empty() ? ExitCode::passed : ExitCode::environment;
}

}  // namespace

void add_doctor(Program& program) {
  const auto python = std::make_shared<PythonOptions>();
  Verb verb = program.add({"doctor",
                           "Show what is installed, which engines and devices work, and what is missing",
                           {"portwright doctor", "portwright doctor --json | jq .engines"}},
                          [python](Console& console) { return doctor(console, python->interpreter); });
  add_options(verb, *python);
}

}  // namespace portwright
