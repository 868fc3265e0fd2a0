// The main job: a PyTorch model to engines, each step with evidence.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "portwright/engine.h"
#include "portwright/inputs.h"
#include "portwright/result.h"
#include "portwright/verdict.h"

namespace portwright {

struct PortOptions {
  std::string source;  // PLUGIN:NAME, file.py:factory or file.onnx
  std::vector<Target> targets;
  std::filesystem::path folder;      // the run folder
  std::vector<InputSpec> inputs;     // overrides of what the source declares
  std::vector<DynamicAxis> dynamic;  // the same
  std::optional<std::int64_t> opset;
  std::string exporter = "dynamo";  // or "torchscript"
  std::uint64_t seed = 0;
  std::optional<std::filesystem::path> eval;  // FILE.py with dataset() and metric()
  std::optional<double> rtol, atol;
  double drift_limit = 2.0;
  int threads = 0;
  double bench_seconds = 20;  // 0 leaves measuring out
  bool remedies = true;
  bool simplify = true;  // give engines the simplified model, when it is proven equal to the exported one
  bool resume = false, force = false;
  bool in_process = false;
  std::chrono::milliseconds timeout{600'000};  // for one compile, run or export
  std::size_t memory_bytes = 0;
  std::string python;                // interpreter; empty: engine/torch/source.h finds one
  std::vector<std::string> command;  // as typed, for the record
  std::function<void(const std::string& step, const std::string& what)> progress;
};

struct PortResult {
  Verdict verdict = Verdict::not_run;
  std::filesystem::path record, report_html, report_md;
  std::string json;  // the text of port.json
};

// Writes the run folder of product.md. A target that fails is a verdict in the record, not an error; errors are what
// keeps the run from making a record: usage (unknown source, folder in use or not empty), environment, cannot_write.
Result<PortResult> port(const PortOptions& options);

}  // namespace portwright
