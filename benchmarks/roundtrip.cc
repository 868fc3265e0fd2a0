// What a worker costs: the same model, 100 MB in and 100 MB out, in this process and in a worker, in turns.
// Prints one JSON line: medians in milliseconds and their difference.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "engine/models.h"
#include "engine/placing.h"
#include "engine/worker.h"

using namespace portwright;

namespace {

constexpr std::int64_t kRows = 51'200, kColumns = 512;  // 105 MB of float32
constexpr int kRounds = 15;

using Run = std::function<Result<RunResult>()>;

double milliseconds(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  if (auto answer = run(); !answer) {
    std::fprintf(stderr, "error: %s\n", answer.error().message.c_str());
    std::exit(1);
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> sample) {
  std::nth_element(sample.begin(), sample.begin() + kRounds / 2, sample.end());
  return sample[kRounds / 2];
}

Result<int> measure() {
  PW_TRY(folder, ScratchFolder::make("portwright-bench-"));
  PW_TRY(model, Model::load(test::scale_and_shift(kColumns).save(folder.path())));
  PW_TRY(target, parse_target("onnxruntime:fp32"));
  const CompileOptions options{target, 1, "all", {}, {}};
  Isolation in_this_process;
  in_this_process.in_process = true;
  PW_TRY(here, open_session(model, options, in_this_process));
  PW_TRY(there, open_session(model, options, Isolation()));
  const Tensors inputs{{"x", Tensor::zeros(Dtype::f32, {kRows, kColumns})}};
  PW_TRY(staged, there->stage(inputs));
  // Both sides write into memory that they have written before, so that neither pays for fresh pages.
  Tensor output = Tensor::zeros(Dtype::f32, {kRows, kColumns});
  const Placer place = [&](const std::string&, Dtype, const Shape&) -> Result<Tensor> { return output; };
  const Run run_here = [&] { return dynamic_cast<PlacingSession&>(*here).run_into(inputs, place); };
  const Run run_there = [&] { return there->run(staged); };
  std::vector<double> in_process, worker, difference;
  for (int i = 0; i < 3; ++i) {
    milliseconds(run_here);
    milliseconds(run_there);
  }
  for (int i = 0; i < kRounds; ++i) {
    in_process.push_back(milliseconds(run_here));
    worker.push_back(milliseconds(run_there));
    difference.push_back(worker.back() - in_process.back());
  }
  std::printf("{\"megabytes\": %.1f, \"in_process_ms\": %.2f, \"worker_ms\": %.2f, \"extra_ms\": %.2f}\n",
              static_cast<double>(kRows * kColumns) * 4e-6, median(in_process), median(worker), median(difference));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "engine-worker") return engine_worker_main();
  const auto done = measure();
  if (!done) std::fprintf(stderr, "error: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
