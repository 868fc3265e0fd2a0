#include "cli/options.h"

#include <cmath>
#include <sstream>

#include "cli/progress.h"

namespace portwright {
namespace {

Error bad_option(const std::string& option, const std::string& message, const std::string& hint) {
  return {Fault::usage, "options", "bad_option", message, option, hint, ""};
}

Status check_tolerance(const std::optional<double>& value, const std::string& option) {
  if (!value || (std::isfinite(*value) && *value >= 0)) return {};
  return fail(bad_option(option, option + " must be a number that is not negative", "for example " + option + " 1e-3"));
}

// "a,b" is a and b.
std::vector<std::string> split(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    std::istringstream in(text);
    for (std::string one; std::getline(in, one, ',');) out.push_back(one);
  }
  return out;
}

}  // namespace

void add_options(Verb& verb, TargetOptions& options) {
  verb.option("-t,--target", options.texts, "ENGINE[:PRECISION][@DEVICE]",
              "Where the model shall run, such as onnxruntime:fp32, openvino:bf16 or torch:compile; may be repeated",
              Need::required);
}

Result<std::vector<Target>> targets(const TargetOptions& options) {
  std::vector<Target> out;
  for (const std::string& text : split(options.texts)) {
    PW_TRY(target, parse_target(text));
    for (const Target& known : out)
      if (known.text == target.text || known.folder() == target.folder())
        return fail(bad_option("--target", "the target " + text + " is given twice", "name each target once"));
    out.push_back(std::move(target));
  }
  return out;
}

Result<Target> single_target(const TargetOptions& options) {
  PW_TRY(all, targets(options));
  if (all.size() == 1) return all[0];
  return fail(bad_option("--target", "this verb takes one --target", "run it once for each target"));
}

void add_options(Verb& verb, InputOptions& options) {
  verb.option("--input", options.inputs, "NAME:SHAPE[:DTYPE][:VALUES]",
              "An input, such as x:1x3x224x224 or ids:1x16:int64:tokens(0,1000); may be repeated");
  verb.option("--dynamic", options.dynamic, "NAME.AXIS=SYMBOL[:MIN..OPT..MAX]",
              "An axis that varies, such as x.0=batch:1..8..32; may be repeated");
  verb.option("--seed", options.seed, "N", "Seed of generated weights and inputs");
}

Result<std::vector<InputSpec>> input_specs(const InputOptions& options) {
  std::vector<InputSpec> out;
  for (const std::string& text : options.inputs) {
    PW_TRY(spec, parse_input(text));
    out.push_back(std::move(spec));
  }
  return out;
}

Result<std::vector<DynamicAxis>> dynamic_axes(const InputOptions& options) {
  std::vector<DynamicAxis> out;
  for (const std::string& text : options.dynamic) {
    PW_TRY(axis, parse_dynamic(text));
    out.push_back(std::move(axis));
  }
  return out;
}

void add_options(Verb& verb, ToleranceOptions& options) {
  verb.option("--rtol", options.rtol, "R", "Relative tolerance of floats: |a - r| <= atol + rtol |r|");
  verb.option("--atol", options.atol, "A", "Absolute tolerance of floats");
}

Result<Policy> policy(const ToleranceOptions& options, const std::string& precision) {
  PW_CHECK(check_tolerance(options.rtol, "--rtol"));
  PW_CHECK(check_tolerance(options.atol, "--atol"));
  Policy policy = policy_for(precision);
  if (options.rtol) policy.rtol = *options.rtol;
  if (options.atol) policy.atol = *options.atol;
  return policy;
}

void add_options(Verb& verb, IsolationOptions& options) {
  verb.option("--timeout", options.timeout_s, "SECONDS", "Longest time of one export, compile or run; 0: no limit");
  verb.option("--memory", options.memory, "SIZE", "Most memory of a worker process, such as 8G");
  verb.option("--threads", options.threads, "N", "Threads of each engine; 0: all cores");
  verb.flag("--in-process", options.in_process, "Run engines in this process: no crash, time or memory protection");
}

Result<ProofOptions> proof_options(const InputOptions& inputs, const IsolationOptions& limits, Progress& progress) {
  ProofOptions proof;
  PW_TRY(specs, input_specs(inputs));
  PW_TRY(axes, dynamic_axes(inputs));
  PW_TRY(apart, isolation(limits));
  proof.inputs = std::move(specs);
  proof.dynamic = std::move(axes);
  proof.seed = inputs.seed;
  proof.threads = limits.threads;
  proof.isolation = std::move(apart);
  proof.progress = [&progress](const std::string& what) { progress.now(what); };
  return proof;
}

Result<std::size_t> parse_size(const std::string& text, const std::string& option) {
  const Error bad = bad_option(option, option + " " + text + " is not a size", "for example " + option + " 8G or 512M");
  double number = 0;
  std::size_t used = 0;
  try {
    number = std::stod(text, &used);
  } catch (const std::exception&) {
    return fail(bad);
  }
  static const std::string kUnits = "KMGT";
  std::string unit = text.substr(used);
  if (unit.ends_with("iB")) unit.resize(unit.size() - 2);
  if (unit.ends_with('B') || unit.ends_with('b')) unit.pop_back();
  const auto power = unit.empty() ? std::string::npos : kUnits.find(static_cast<char>(std::toupper(unit[0])));
  if (unit.size() > 1 || (unit.size() == 1 && power == std::string::npos)) return fail(bad);
  if (!unit.empty()) number *= std::pow(1024.0, static_cast<double>(power + 1));
  if (!(number >= 1) || number > 1e18) return fail(bad);
  return static_cast<std::size_t>(number);
}

Status check_threads(int threads) {
  if (threads >= 0 && threads <= 4096) return {};
  return fail(bad_option("--threads", "--threads must be between 0 and 4096", "0 takes all cores"));
}

Result<Isolation> isolation(const IsolationOptions& options) {
  if (!(options.timeout_s >= 0) || options.timeout_s > 1e9)
    return fail(bad_option("--timeout", "--timeout must be a number of seconds", "for example --timeout 600"));
  PW_CHECK(check_threads(options.threads));
  Isolation out;
  out.in_process = options.in_process;
  out.timeout = std::chrono::milliseconds(std::llround(options.timeout_s * 1000));
  if (!options.memory.empty()) {
    PW_TRY(bytes, parse_size(options.memory, "--memory"));
    out.memory_bytes = bytes;
  }
  return out;
}

void add_options(Verb& verb, PythonOptions& options) {
  verb.option("--python", options.interpreter, "PATH", "Python interpreter in which PyTorch lives");
}

void add_options(Verb& verb, ExportOptions& options) {
  verb.choice("--exporter", options.exporter, {"dynamo", "torchscript"}, "PyTorch's exporter");
  verb.option("--opset", options.opset, "N", "Opset to export to; the exporter's own default otherwise");
}

Status check(const ExportOptions& options) {
  if (!options.opset || (*options.opset >= 1 && *options.opset <= 100)) return {};
  return fail(bad_option("--opset", "--opset must be between 1 and 100", "for example --opset 18"));
}

}  // namespace portwright
