// The original PyTorch model, alive in a Python worker.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "portwright/inputs.h"
#include "portwright/result.h"

namespace portwright {

// A Python worker that is running but has opened nothing yet.
Result<Worker> start_python(const std::string& python, const std::filesystem::path& log, WorkerLimits limits,
                            std::shared_ptr<double> waited = nullptr);
// --python, $PORTWRIGHT_PYTHON, the active virtual environment, .venv of the current folder, .venv beside the program's
// build folder; the first that exists.
std::string find_python(const std::string& asked);
// The folders in which Python finds the package `portwright`: beside the program, then the user's own PYTHONPATH.
std::string python_path();

struct SourceOptions {
  std::string source;
  std::uint64_t seed = 0;
  std::string python;
  std::vector<InputSpec> inputs;
  std::vector<DynamicAxis> dynamic;
  WorkerLimits limits;
  std::filesystem::path log;
  std::shared_ptr<double> waited;  // see WorkerCommand
  int threads = 0;
};

struct ExportRequest {
  std::filesystem::path path;
  std::string exporter = "dynamo";
  std::optional<std::int64_t> opset;
  Tensors example;
};
struct ExportResult {
  std::string exporter;
  std::optional<std::int64_t> opset_asked;
  std::int64_t opset_produced = 0, ir_version = 0;
  std::vector<std::string> inputs, outputs, dynamic_axes, static_axes;
  Json assumptions;  // [{condition, where}]: what the exporter took for granted about dynamic sizes, and the line
  double seconds = 0;
};
Json to_json(const ExportResult& result);

// One model in one worker. When the worker dies the next call starts another and opens the model again.
class Source {
 public:
  static Result<std::unique_ptr<Source>> open(SourceOptions options);

  const ModelInputs& inputs() const { return inputs_; }
  const std::optional<Tensors>& example() const { return example_; }  // tensors that a factory gave
  const std::string& digest() const { return digest_; }
  const Json& description() const { return description_; }  // the worker's reply to "open"
  const Json& versions() const { return versions_; }

  Result<ExportResult> export_onnx(const ExportRequest& request);
  // Every tensor that the dynamo exporter names, computed by PyTorch on request.example; exports again (path is
  // unused).
  Result<Tensors> trace(const ExportRequest& request);
  // precision: fp32, fp64, fp16, bf16; the outputs are copies.
  Result<Tensors> forward(const Tensors& inputs, const std::string& precision);
  // Raw operations, for evaluation.
  Result<Json> call(std::string_view op, Json request);
  Worker& worker() { return *worker_; }

 private:
  explicit Source(SourceOptions options) : options_(std::move(options)) {}
  Status start();
  Result<Json> export_call(std::string_view op, const ExportRequest& request);
  Result<Tensors> copied(const Json& described);
  SourceOptions options_;
  std::optional<Worker> worker_;
  ModelInputs inputs_;
  std::optional<Tensors> example_;
  std::string digest_;
  Json description_, versions_;
  int handle_ = 0;
};

}  // namespace portwright
