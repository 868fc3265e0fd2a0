// Engines: can you, compile, run. The three questions are asked apart.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "portwright/model.h"
#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

// ENGINE[:PRECISION][@DEVICE]; torch:eager and torch:compile carry a mode instead (torch:eager:bf16 both).
struct Target {
  std::string engine;     // "onnxruntime", "openvino", "tensorrt", "torch"
  std::string precision;  // "fp32", "fp16", "bf16", "int8"
  std::string mode;       // torch only: "eager" or "compile"
  std::string device;     // "cpu", "cuda:0", ...
  std::string text;       // as the user wrote it
  bool reduced() const { return precision != "fp32"; }
  // A name for a folder: "openvino-bf16".
  std::string folder() const;
};
// Error (Fault::usage): bad_target, listing what is known.
Result<Target> parse_target(const std::string& text);

// What an engine turned out to do, read back from it, not what it was asked.
struct EngineInfo {
  std::string name, version;
  std::string device_asked, device;  // device: where the work really ran; "cpu", "cuda:0", or "mixed: ..."
  std::string precision_asked, precision_effective;  // "fp32", "bf16", ...; "bf16 weights, fp32 arithmetic"
  std::string default_precision;                     // what the engine would have used without being pinned
  std::vector<std::string> cpu_features;
  std::vector<std::pair<std::string, std::string>> options;  // all that were set
  int threads = 0;
};

struct CompileOptions {
  Target target;
  int threads = 0;                    // 0: all cores
  std::string optimization = "all";   // ONNX Runtime's ladder: off, basic, extended, all
  std::vector<std::string> disabled;  // names of single optimisations to leave out
  std::filesystem::path save_to;      // folder for the compiled engine; empty: not saved
};

struct RunResult {
  Tensors outputs;     // views that stay valid until the next run of the session; clone() to keep
  double seconds = 0;  // inside the engine
};

// A compiled model, ready to run.
class Session {
 public:
  virtual ~Session() = default;
  virtual const EngineInfo& info() const = 0;
  virtual const std::vector<ValueInfo>& inputs() const = 0;
  virtual const std::vector<ValueInfo>& outputs() const = 0;
  // Inputs by name, each in the dtype of the model. Error codes: bad_input (Fault::usage), run_failed, crashed,
  // timed_out, out_of_memory (Fault::gate).
  virtual Result<RunResult> run(const Tensors& inputs) = 0;
  // Inputs placed where this session reads them without a copy (shared memory of its worker).
  virtual Result<Tensors> stage(const Tensors& inputs) { return inputs; }
  // Seconds of each of `runs` runs on the same inputs, timed next to the engine, and without the outputs.
  virtual Result<std::vector<double>> time(const Tensors& inputs, int runs) = 0;
  virtual std::size_t peak_memory() const = 0;  // bytes resident at most
  double load_seconds = 0;                      // reading the model, starting the worker
  double compile_seconds = 0;                   // inside the engine's compiler
};

// One answer of "can you": per node of the model.
struct NodeSupport {
  std::string node, op_type;
  bool supported = true;
  std::string reason;
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  // Version, or the Error (Fault::environment) that says what is missing and how to get it.
  virtual Result<std::string> available() const = 0;
  virtual std::vector<std::string> devices() const = 0;
  virtual std::vector<std::string> precisions() const = 0;  // those the hardware computes in natively, on the CPU
  virtual std::int64_t newest_opset() const = 0;            // of ai.onnx that it loads; 0: any
  virtual std::int64_t newest_ir_version() const = 0;
  virtual bool takes(std::int64_t opset, std::int64_t ir_version) const = 0;  // cheaper than asking for the newest
  // Asks the engine about every node, without compiling where it lets one ask.
  virtual Result<std::vector<NodeSupport>> supports(const Model& model, const Target& target) const = 0;
  // Compiles in this process. Codes: unsupported, compile_failed (Fault::gate), environment.
  virtual Result<std::unique_ptr<Session>> compile(const Model& model, const CompileOptions& options) const = 0;
  // Opens what compile() saved. Error code engine_mismatch names what differs (version, device, CPU features).
  virtual Result<std::unique_ptr<Session>> load(const std::filesystem::path& folder,
                                                const CompileOptions& options) const = 0;
};

// All engines of this build, the absent ones included. The one place that registers them: engine/registry.cc.
const std::vector<std::unique_ptr<Engine>>& engines();
Result<const Engine*> find_engine(const std::string& name);

// Where the model is newer than the newest opset or IR version that an engine of this build takes: warnings with the
// codes opset_beyond_engine and ir_beyond_engine.
std::vector<Finding> engine_limits(const Model& model);

struct Isolation {
  bool in_process = false;
  std::chrono::milliseconds timeout{0};  // for one compile or run; 0: none
  std::size_t memory_bytes = 0;          // 0: none
  std::filesystem::path log;             // of the worker; empty: a temporary file
  std::shared_ptr<double> waited;        // wall time spent waiting for workers is added here
};
// Compiles in a worker process of its own (or here with in_process) and gives a session that talks to it.
Result<std::unique_ptr<Session>> open_session(const Model& model, const CompileOptions& options,
                                              const Isolation& isolation);
Result<std::unique_ptr<Session>> open_saved(const std::filesystem::path& folder, const CompileOptions& options,
                                            const Isolation& isolation);

}  // namespace portwright
