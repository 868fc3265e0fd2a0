// Options that several verbs share: declared once, checked once.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cli/verb.h"
#include "portwright/compare.h"
#include "portwright/engine.h"
#include "portwright/inputs.h"
#include "portwright/prove.h"
#include "portwright/result.h"

namespace portwright {

class Progress;

// What the user typed, and what it means once checked: each Options has a function that gives the meaning.
struct TargetOptions {
  std::vector<std::string> texts;
};
void add_options(Verb& verb, TargetOptions& options);
Result<std::vector<Target>> targets(const TargetOptions& options);
Result<Target> single_target(const TargetOptions& options);  // of a verb that takes one

struct InputOptions {
  std::vector<std::string> inputs, dynamic;
  std::uint64_t seed = 0;
};
void add_options(Verb& verb, InputOptions& options);
Result<std::vector<InputSpec>> input_specs(const InputOptions& options);
Result<std::vector<DynamicAxis>> dynamic_axes(const InputOptions& options);

struct ToleranceOptions {
  std::optional<double> rtol, atol;
};
void add_options(Verb& verb, ToleranceOptions& options);
Result<Policy> policy(const ToleranceOptions& options, const std::string& precision);

struct IsolationOptions {
  double timeout_s = 600;
  std::string memory;  // "8G"
  bool in_process = false;
  int threads = 0;
};
void add_options(Verb& verb, IsolationOptions& options);
Result<Isolation> isolation(const IsolationOptions& options);
Status check_threads(int threads);
// "512M", "8G", "1.5G", a plain number of bytes. Error (Fault::usage): bad_size.
Result<std::size_t> parse_size(const std::string& text, const std::string& option);

// How to prove that two models compute the same.
Result<ProofOptions> proof_options(const InputOptions& inputs, const IsolationOptions& isolation, Progress& progress);

struct PythonOptions {
  std::string interpreter;
};
void add_options(Verb& verb, PythonOptions& options);

struct ExportOptions {
  std::string exporter = "dynamo";
  std::optional<std::int64_t> opset;
};
void add_options(Verb& verb, ExportOptions& options);
Status check(const ExportOptions& options);

}  // namespace portwright
