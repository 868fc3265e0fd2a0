// Options that several verbs share: declared once, checked once.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "portwright/compare.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"
#include "portwright/result.h"

namespace portwright {

// An option that takes one value each time it is given, of the kind that help shows as `value`.
template <class T>
CLI::Option* add_value(CLI::App& app, const std::string& names, T& to, const std::string& value,
                       const std::string& description) {
  return app.add_option(names, to, description)->type_name(value)->allow_extra_args(false);
}

// An option that takes one of a few words; help and completion show them.
CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& to, const std::vector<std::string>& words,
                        const std::string& description);
// The words of such an option; empty for any other.
std::vector<std::string> choices_of(const CLI::Option& option);

// What the user typed, and what it means once checked: each Options has a function that gives the meaning.
struct TargetOptions {
  std::vector<std::string> texts;
};
void add_options(CLI::App& app, TargetOptions& options);
Result<std::vector<Target>> targets(const TargetOptions& options);

struct InputOptions {
  std::vector<std::string> inputs, dynamic;
  std::uint64_t seed = 0;
};
void add_options(CLI::App& app, InputOptions& options);
Result<std::vector<InputSpec>> input_specs(const InputOptions& options);
Result<std::vector<DynamicAxis>> dynamic_axes(const InputOptions& options);

struct ToleranceOptions {
  std::optional<double> rtol, atol;
};
void add_options(CLI::App& app, ToleranceOptions& options);
Result<Policy> policy(const ToleranceOptions& options, const std::string& precision);

struct IsolationOptions {
  double timeout_s = 600;
  std::string memory;  // "8G"
  bool in_process = false;
  int threads = 0;
};
void add_options(CLI::App& app, IsolationOptions& options);
Result<Isolation> isolation(const IsolationOptions& options);
// "512M", "8G", "1.5G", a plain number of bytes. Error (Fault::usage): bad_size.
Result<std::size_t> parse_size(const std::string& text, const std::string& option);

struct PythonOptions {
  std::string interpreter;
};
void add_options(CLI::App& app, PythonOptions& options);

struct ExportOptions {
  std::string exporter = "dynamo";
  std::optional<std::int64_t> opset;
};
void add_options(CLI::App& app, ExportOptions& options);

}  // namespace portwright
