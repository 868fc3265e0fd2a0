#include "cli/options.h"

#include <cmath>
#include <sstream>

namespace portwright {
namespace {

Error bad_option(const std::string& option, const std::string& message, const std::string& hint) {
  return {Fault::usage, "options", "bad_option", message, option, hint, ""};
}

Status check_tolerance(const std::optional<double>& value, const std::string& option) {
  if (!value || (std::isfinite(*value) && *value >= 0)) return {};
  return fail(bad_option(option, option + " must be a number that is not negative", "for example " + option + " 1e-3"));
}

}  // namespace

CLI::Option* add_choice(CLI::App& app, const std::string& names, std::string& to, const std::vector<std::string>& words,
                        const std::string& description) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : "|") + word;
  return add_value(app, names, to, all, description)->check(CLI::IsMember(words).description(""));
}

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string all = option.get_type_name();
  std::vector<std::string> words;
  if (all.find_first_of("[:") != std::string::npos || all.find('|') == std::string::npos) return words;
  std::istringstream in(all);
  for (std::string word; std::getline(in, word, '|');) words.push_back(word);
  return words;
}

void add_options(CLI::App& app, TargetOptions& options) {
  add_value(app, "-t,--target", options.texts, "ENGINE[:PRECISION][@DEVICE]",
            "Where the model shall run, such as onnxruntime:fp32, openvino:bf16 or torch:compile; may be repeated")
      ->delimiter(',')
      ->required();
}

Result<std::vector<Target>> targets(const TargetOptions& options) {
  std::vector<Target> out;
  for (const std::string& text : options.texts) {
    PW_TRY(target, parse_target(text));
    for (const Target& known : out)
      if (known.text == target.text || known.folder() == target.folder())
        return fail(bad_option("--target", "the target " + text + " is given twice", "name each target once"));
    out.push_back(std::move(target));
  }
  return out;
}

void add_options(CLI::App& app, InputOptions& options) {
  add_value(app, "--input", options.inputs, "NAME:SHAPE[:DTYPE][:VALUES]",
            "An input, such as x:1x3x224x224 or ids:1x16:int64:tokens(0,1000); may be repeated");
  add_value(app, "--dynamic", options.dynamic, "NAME.AXIS=SYMBOL[:MIN..OPT..MAX]",
            "An axis that varies, such as x.0=batch:1..8..32; may be repeated");
  add_value(app, "--seed", options.seed, "N", "Seed of generated weights and inputs")->capture_default_str();
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

void add_options(CLI::App& app, ToleranceOptions& options) {
  add_value(app, "--rtol", options.rtol, "R", "Relative tolerance of floats: |a - r| <= atol + rtol |r|");
  add_value(app, "--atol", options.atol, "A", "Absolute tolerance of floats");
}

Result<Policy> policy(const ToleranceOptions& options, const std::string& precision) {
  PW_CHECK(check_tolerance(options.rtol, "--rtol"));
  PW_CHECK(check_tolerance(options.atol, "--atol"));
  Policy policy = policy_for(precision);
  if (options.rtol) policy.rtol = *options.rtol;
  if (options.atol) policy.atol = *options.atol;
  return policy;
}

void add_options(CLI::App& app, IsolationOptions& options) {
  add_value(app, "--timeout", options.timeout_s, "SECONDS", "Longest time of one export, compile or run; 0: no limit")
      ->capture_default_str();
  add_value(app, "--memory", options.memory, "SIZE", "Most memory of a worker process, such as 8G");
  add_value(app, "--threads", options.threads, "N", "Threads of each engine; 0: all cores")->capture_default_str();
  app.add_flag("--in-process", options.in_process, "Run engines in this process: no crash, time or memory protection");
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

Result<Isolation> isolation(const IsolationOptions& options) {
  if (!(options.timeout_s >= 0) || options.timeout_s > 1e9)
    return fail(bad_option("--timeout", "--timeout must be a number of seconds", "for example --timeout 600"));
  if (options.threads < 0 || options.threads > 4096)
    return fail(bad_option("--threads", "--threads must be between 0 and 4096", "0 takes all cores"));
  Isolation out;
  out.in_process = options.in_process;
  out.timeout = std::chrono::milliseconds(std::llround(options.timeout_s * 1000));
  if (!options.memory.empty()) {
    PW_TRY(bytes, parse_size(options.memory, "--memory"));
    out.memory_bytes = bytes;
  }
  return out;
}

void add_options(CLI::App& app, PythonOptions& options) {
  add_value(app, "--python", options.interpreter, "PATH", "Python interpreter in which PyTorch lives");
}

void add_options(CLI::App& app, ExportOptions& options) {
  add_choice(app, "--exporter", options.exporter, {"dynamo", "torchscript"}, "PyTorch's exporter")
      ->capture_default_str();
  add_value(app, "--opset", options.opset, "N", "Opset to export to; the exporter's own default otherwise")
      ->check(CLI::Range(1, 100).description(""));
}

}  // namespace portwright
