// The steps evaluate (the user's own metric on the user's own data) and measure (latency, memory, speed-up).
#include <algorithm>

#include "base/digest.h"
#include "base/machine.h"
#include "engine/torch/session.h"
#include "measure/records.h"
#include "port/run.h"
#include "report/format.h"

namespace portwright {
namespace {

bool usable(const Lane& lane) { return lane.verdict == Verdict::passed || lane.verdict == Verdict::vacuous; }

Json keys_of(const std::vector<Lane>& lanes) {
  Json keys = Json::array();
  for (const Lane& lane : lanes) keys.push_back(lane.key);
  return keys;
}

}  // namespace

Status Run::evaluate() {
  if (!options_.eval) return {};
  if (is_onnx_source())
    return fail({Fault::usage, "evaluate", "bad_eval",
                 "--eval needs the PyTorch source, and " + options_.source + " is an ONNX file", "--eval",
                 "give the original source", ""});
  PW_TRY(file, digest_file(*options_.eval));
  const Json on{{"build", find_step("build")->key}, {"eval", file}, {"targets", keys_of(lanes_)}};
  PW_CHECK(steps_.step("evaluate", on, "logs/python.log", [&] { return evaluate_body(); }));
  return {};
}

// One pass over the data: each sample goes through the reference and every usable target.
Result<StepResult> Run::evaluate_body() {
  StepResult step;
  step.read = {std::filesystem::absolute(*options_.eval)};
  PW_TRY(torch, source());
  PW_TRY(opened, torch->call("eval_open", Json{{"file", options_.eval->string()}}));
  const Json handle = opened.at("handle");
  std::vector<std::string> names;
  for (const InputSpec& spec : inputs_.specs) names.push_back(spec.name);
  const auto add = [&](const std::string& run, const Tensors& outputs) -> Status {
    PW_TRY(described, torch->worker().put(outputs));
    PW_CHECK(torch->call("eval_add", Json{{"handle", handle}, {"run", run}, {"outputs", described}}));
    return {};
  };
  std::size_t samples = 0;
  for (;; ++samples) {
    PW_TRY(next, torch->call("eval_next", Json{{"handle", handle}, {"input_names", names}}));
    if (next.value("done", false)) break;
    note("evaluate", "sample " + std::to_string(samples + 1));
    PW_TRY(views, torch->worker().get(next.at("inputs")));
    Tensors inputs;
    for (const auto& [name, tensor] : views) inputs.push_back({name, tensor.clone()});
    PW_TRY(reference, torch->forward(inputs, "fp32"));
    PW_CHECK(add("reference", reference));
    for (Lane& lane : lanes_) {
      if (!usable(lane) || lane.hidden) continue;
      PW_CHECK(reopen(lane));
      PW_TRY(answer, lane.session->run(inputs));
      PW_CHECK(add(lane.target.text, answer.outputs));
    }
  }
  const auto score = [&](const std::string& run) {
    return torch->call("eval_score", Json{{"handle", handle}, {"run", run}});
  };
  PW_TRY(truth, score("reference"));
  step.result = Json{{"samples", samples}, {"reference", truth.at("metrics")}, {"targets", Json::object()}};
  for (const Lane& lane : lanes_) {
    if (!usable(lane) || lane.hidden) continue;
    PW_TRY(measured, score(lane.target.text));
    Json delta = Json::object();
    for (const auto& [name, value] : measured.at("metrics").items())
      delta[name] = number(number_from(value) - number_from(truth["metrics"].value(name, Json())));
    step.result["targets"][lane.target.text] =
        Json{{"reference", truth["metrics"]}, {"target", measured["metrics"]}, {"delta", delta}};
  }
  return step;
}

Status Run::measure() {
  if (options_.bench_seconds <= 0 || std::none_of(lanes_.begin(), lanes_.end(), usable)) return {};
  const Json on{{"targets", keys_of(lanes_)},
                {"seconds", options_.bench_seconds},
                {"threads", options_.threads},
                {"cpu", this_machine().cpu}};
  PW_CHECK(steps_.step("measure", on, "logs/measure.log", [&] { return measure_body(); }));
  return {};
}

Result<StepResult> Run::measure_body() {
  StepResult step;
  PW_TRY(example, cases_(inputs_.example(), 0));
  std::vector<Contestant> contestants;
  std::unique_ptr<Session> eager;
  const bool asked = std::any_of(lanes_.begin(), lanes_.end(),
                                 [](const Lane& lane) { return lane.target.text == "torch:eager" && usable(lane); });
  if (needs_torch() && !asked) {  // eager is the baseline of every comparison, asked for or not
    PW_TRY(target, parse_target("torch:eager"));
    PW_TRY(session, open_torch(source_options("torch-eager.log"), target, options_.threads));
    eager = std::move(session);
    contestants.push_back({"torch:eager", eager.get()});
  }
  for (Lane& lane : lanes_) {
    if (!usable(lane) || lane.hidden) continue;
    PW_CHECK(reopen(lane));
    const auto place = lane.target.text == "torch:eager" ? contestants.begin() : contestants.end();
    contestants.insert(place, {lane.target.text, lane.session.get()});
  }
  BenchOptions options;
  options.max_seconds = options_.bench_seconds;
  options.threads = options_.threads;
  const std::size_t items = example.inputs.empty() || example.inputs[0].tensor.shape().empty()
                                ? 1
                                : static_cast<std::size_t>(example.inputs[0].tensor.shape()[0]);
  options.items = static_cast<std::int64_t>(items);
  options.progress = [this](const std::string& what) { note("measure", what); };
  const Bench result = bench(contestants, example.inputs, options);
  for (const Speedup& speedup : result.speedups)
    if (speedup.ci95.high < 1 && speedup.baseline == "torch:eager")
      step.issues.push_back({"measure", speedup.target, "performance",
                             "slower than eager PyTorch: " + format_significant(speedup.ratio) + " times its speed",
                             "at this size and thread count", "try another target, batch size or thread count", "open",
                             Json::object(), to_json(speedup)});
  step.result = to_json(result);
  for (const Lane& lane : lanes_) {
    if (!usable(lane) || lane.hidden) continue;
    for (const BenchEntry& entry : result.targets)
      if (entry.target == lane.target.text) {
        PW_CHECK(write_json(engine_folder(lane) / "bench.json", to_json(entry)));
        step.made.push_back(std::filesystem::relative(engine_folder(lane) / "bench.json", folder_));
      }
  }
  return step;
}

}  // namespace portwright
