// portwright bench: targets side by side, in interleaved rounds.
#include "portwright/bench.h"

#include <fmt/format.h>

#include "base/files.h"
#include "cli/program.h"
#include "cli/sources.h"
#include "cli/table.h"
#include "engine/torch/session.h"
#include "measure/records.h"
#include "portwright/npz.h"
#include "report/format.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

struct BenchVerbOptions {
  SourceVerbOptions source;
  TargetOptions targets;
  std::string inputs_file;
  double seconds = 20;
};

// Everything that takes part: sessions live here while they are timed.
struct Field {
  std::vector<Contestant> contestants;
  std::vector<std::unique_ptr<Session>> sessions;
  Tensors inputs;
};

bool is_onnx(const std::string& subject) { return subject.ends_with(".onnx"); }

// A source is measured against eager PyTorch, asked for or not; a bare model against its first target.
Result<std::vector<Target>> order(const BenchVerbOptions& options) {
  PW_TRY(all, targets(options.targets));
  if (is_onnx(options.source.source)) return all;
  const auto eager = std::find_if(all.begin(), all.end(), [](const Target& t) { return t.text == "torch:eager"; });
  if (eager != all.end()) {
    std::rotate(all.begin(), eager, eager + 1);
    return all;
  }
  PW_TRY(baseline, parse_target("torch:eager"));
  all.insert(all.begin(), baseline);
  return all;
}

Result<Tensors> model_inputs(const BenchVerbOptions& options, const Model& model) {
  if (!options.inputs_file.empty()) return read_npz(options.inputs_file);
  PW_TRY(specs, input_specs(options.source.inputs));
  PW_TRY(axes, dynamic_axes(options.source.inputs));
  PW_TRY(inputs, inputs_of(model, specs, axes));
  return inputs.generate(inputs.example(), options.source.inputs.seed);
}

Result<Field> gather(const BenchVerbOptions& options, const fs::path& scratch, Progress& progress) {
  PW_TRY(all, order(options));
  PW_TRY(limits, isolation(options.source.isolation));
  PW_TRY(source, source_options(options.source));
  Field field;
  fs::path file = options.source.source;
  if (!is_onnx(options.source.source)) {
    file = scratch / "model.onnx";
    PW_TRY(exported, export_source(source, options.source.exporting, file, progress));
    field.inputs = exported.inputs;
  }
  PW_TRY(model, Model::load(file));
  if (field.inputs.empty() || !options.inputs_file.empty()) {
    PW_TRY(inputs, model_inputs(options, model));
    field.inputs = inputs;
  }
  for (const Target& target : all) {
    progress.now("compiling " + target.text);
    CompileOptions compile;
    compile.target = target;
    compile.threads = options.source.isolation.threads;
    PW_TRY(session, target.engine == "torch" ? open_torch(source, target, compile.threads)
                                             : open_session(model, compile, limits));
    field.sessions.push_back(std::move(session));
    field.contestants.push_back({target.text, field.sessions.back().get()});
  }
  return field;
}

std::string speedup_text(const Bench& result, const std::string& target) {
  for (const Speedup& speedup : result.speedups)
    if (speedup.target == target)
      return fmt::format("{} ({} to {})", format_ratio(speedup.ratio), format_ratio(speedup.ci95.low),
                         format_ratio(speedup.ci95.high));
  return "baseline";
}

std::string human(const Console& console, const Bench& result) {
  Table table(
      {"target", "#p50", "#p90", "#p99", "#mean (95 %)", "#items/s", "#memory", "#load", "#compile", "speed-up"});
  std::string errors;
  for (const BenchEntry& entry : result.targets) {
    if (entry.error) {
      errors += console.paint(Tone::bad, entry.target) + ": " + entry.error->message + "\n";
      continue;
    }
    table.add({{entry.target, Tone::strong},
               format_ms(entry.p50),
               format_ms(entry.p90),
               format_ms(entry.p99),
               fmt::format("{} to {}", format_significant(entry.ci95.low), format_ms(entry.ci95.high)),
               format_significant(entry.throughput),
               format_bytes(static_cast<double>(entry.peak_memory)),
               format_seconds(entry.load_s),
               format_seconds(entry.compile_s),
               speedup_text(result, entry.target)});
  }
  return table.text(console) + errors;
}

Result<ExitCode> bench_targets(Console& console, const BenchVerbOptions& options) {
  if (!(options.seconds > 0 && options.seconds < 1e6))
    return fail({Fault::usage, "options", "bad_option", "--seconds must be positive", "--seconds",
                 "for example --seconds 20", ""});
  PW_TRY(scratch, ScratchFolder::make("portwright-bench-"));
  Progress& progress = console.progress();
  PW_TRY(field, gather(options, scratch.path(), progress));
  BenchOptions how;
  how.max_seconds = options.seconds;
  how.threads = options.source.isolation.threads;
  if (!field.inputs.empty() && !field.inputs[0].tensor.shape().empty()) how.items = field.inputs[0].tensor.shape()[0];
  how.progress = [&](const std::string& what) { progress.now(what); };
  progress.now("measuring");
  const Bench result = bench(field.contestants, field.inputs, how);
  Json out = document("bench");
  out["subject"] = options.source.source;
  out.update(to_json(result));
  console.document(out);
  console.print(human(console, result));
  const bool whole = std::none_of(result.targets.begin(), result.targets.end(),
                                  [](const BenchEntry& e) { return e.error.has_value(); });
  return whole ? ExitCode::passed : ExitCode::failed;
}

}  // namespace

void add_bench(Program& program) {
  const auto options = std::make_shared<BenchVerbOptions>();
  Verb verb = program.add(
      {"bench",
       "Measure latency, throughput and memory of targets, side by side",
       {"portwright bench torchvision:resnet18 --target onnxruntime:fp32 --target openvino:bf16",
        "portwright bench model.onnx --target onnxruntime:fp32 --target openvino:fp32 --threads 1 --seconds 10"}},
      [options](Console& console) { return bench_targets(console, *options); });
  verb.argument("SOURCE_OR_MODEL", options->source.source, "PLUGIN:NAME, file.py:factory or an ONNX file");
  add_options(verb, options->targets);
  verb.option("-i,--inputs", options->inputs_file, "IN.npz", "Inputs to run on; generated if not given");
  verb.option("--seconds", options->seconds, "SECONDS", "Time for all targets together");
  add_options(verb, options->source);
}

}  // namespace portwright
