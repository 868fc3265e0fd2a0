#include "engine/onnxruntime/engine.h"

#include <dlfcn.h>

#define ORT_API_MANUAL_INIT  // the library is loaded when it is needed, see library()
#include <onnxruntime_cxx_api.h>
#include <onnxruntime_session_options_config_keys.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <regex>

#include "base/files.h"
#include "base/machine.h"
#include "engine/placing.h"
#include "engine/probe.h"
#include "engine/records.h"

namespace portwright {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kEngineFile = "model.optimized.onnx";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr std::array<std::pair<ONNXTensorElementDataType, Dtype>, 15> kDtypes{{
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, Dtype::f32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, Dtype::f64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, Dtype::f16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, Dtype::bf16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, Dtype::i8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, Dtype::i16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, Dtype::i32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, Dtype::i64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, Dtype::u8},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, Dtype::u16},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, Dtype::u32},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, Dtype::u64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, Dtype::boolean},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64, Dtype::c64},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128, Dtype::c128},
}};

std::optional<Dtype> dtype_of(ONNXTensorElementDataType type) {
  for (const auto& [theirs, ours] : kDtypes)
    if (theirs == type) return ours;
  return std::nullopt;
}
ONNXTensorElementDataType type_of(Dtype dtype) {
  for (const auto& [theirs, ours] : kDtypes)
    if (ours == dtype) return theirs;
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

// Loaded by the first who asks: verbs that work on graphs alone do without its memory and start-up. The program knows
// the folder (its RUNPATH), so that the name is enough.
const Result<const OrtApiBase*>& library() {
  static const auto loaded = []() -> Result<const OrtApiBase*> {
    const auto missing = [](const std::string& what) {
      return fail({Fault::environment, "engine", "environment", "ONNX Runtime does not load: " + what,
                   "libonnxruntime.so.1", "run scripts/setup", ""});
    };
    void* handle = ::dlopen("libonnxruntime.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) return missing(::dlerror());
    const auto base_of = reinterpret_cast<decltype(&OrtGetApiBase)>(::dlsym(handle, "OrtGetApiBase"));
    if (base_of == nullptr) return missing("it is another library");
    const OrtApi* api = base_of()->GetApi(ORT_API_VERSION);
    if (api == nullptr) return missing(std::string("it is version ") + base_of()->GetVersionString());
    Ort::InitApi(api);
    return base_of();
  }();
  return loaded;
}

// Where library() has succeeded.
std::string version() { return (*library())->GetVersionString(); }

Ort::Env& environment() {
  static Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "portwright");  // ONNX Runtime wants one for each process
  return env;
}

// ONNX Runtime names the node as "node with name 'x'", "node. Name:'x'" or "Node (x)".
std::string node_in(const std::string& message) {
  static const std::regex pattern(R"((?:with name |Name: ?)'([^']+)'|Node ?\(([^)]+)\)|Node:\s*(\S+))");
  std::smatch match;
  if (!std::regex_search(message, match, pattern)) return "";
  for (std::size_t i = 1; i < match.size(); ++i)
    if (match[i].matched) return match[i].str();
  return "";
}

Error ort_error(const Ort::Exception& e, const char* stage) {
  std::string text = e.what();
  text.erase(text.find_last_not_of(" \n") + 1);
  Error error{Fault::gate, stage, "run_failed", "ONNX Runtime: " + text, node_in(text), "", ""};
  if (std::string_view(stage) != "run") error.code = "unsupported";
  switch (e.GetOrtErrorCode()) {
    case ORT_NOT_IMPLEMENTED:
      error.code = "unsupported";
      error.hint = "this operator, type or opset is not implemented there; try another opset or target";
      break;
    case ORT_INVALID_GRAPH:
    case ORT_INVALID_PROTOBUF:
      error.code = "invalid_model";
      break;
    case ORT_INVALID_ARGUMENT:
      if (std::string_view(stage) == "run") error.code = "bad_input";
      break;
    default:
      break;
  }
  return error;
}

// Runs third-party code and turns its exceptions into values.
template <class F>
auto guarded(const char* stage, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Ort::Exception& e) {
    return fail(ort_error(e, stage));
  }
}

ValueInfo value_info(const std::string& name, const Ort::TypeInfo& type) {
  ValueInfo info;
  info.name = name;
  if (type.GetONNXType() != ONNX_TYPE_TENSOR) {
    info.type_text = "not a tensor";
    return info;
  }
  const auto tensor = type.GetTensorTypeAndShapeInfo();
  info.dtype = dtype_of(tensor.GetElementType());
  info.has_shape = true;
  const auto dims = tensor.GetShape();
  std::vector<const char*> symbols(dims.size());
  tensor.GetSymbolicDimensions(symbols.data(), symbols.size());
  info.type_text = info.dtype ? std::string(to_string(*info.dtype)) : "unknown";
  for (std::size_t i = 0; i < dims.size(); ++i) {
    Dimension dim;
    if (dims[i] >= 0) dim.value = dims[i];
    dim.symbol = symbols[i] ? symbols[i] : "";
    info.type_text += (i ? ", " : "[") + (dim.value            ? std::to_string(*dim.value)
                                          : dim.symbol.empty() ? "?"
                                                               : dim.symbol);
    info.shape.push_back(std::move(dim));
  }
  if (!dims.empty()) info.type_text += "]";
  return info;
}

class OrtSession : public PlacingSession {
 public:
  OrtSession(Ort::Session session, EngineInfo info) : session_(std::move(session)), info_(std::move(info)) {
    Ort::AllocatorWithDefaultOptions allocator;
    for (std::size_t i = 0; i < session_.GetInputCount(); ++i)
      inputs_.push_back(value_info(session_.GetInputNameAllocated(i, allocator).get(), session_.GetInputTypeInfo(i)));
    for (std::size_t i = 0; i < session_.GetOutputCount(); ++i)
      outputs_.push_back(
          value_info(session_.GetOutputNameAllocated(i, allocator).get(), session_.GetOutputTypeInfo(i)));
  }

  const EngineInfo& info() const override { return info_; }
  const std::vector<ValueInfo>& inputs() const override { return inputs_; }
  const std::vector<ValueInfo>& outputs() const override { return outputs_; }

  Result<RunResult> run_into(const Tensors& inputs, const Placer& place) override {
    PW_TRY(ordered, ordered_inputs(inputs_, inputs));
    if (const auto* shapes = memory_.find(ordered)) {
      auto result = run_bound(ordered, *shapes, place);
      if (result) return result;
      memory_.distrust();
    }
    return run_free(ordered, place);
  }

 private:
  static Ort::Value wrap(const Tensor& tensor) {
    static const auto cpu = Ort::MemoryInfo::CreateCpu(OrtDeviceAllocator, OrtMemTypeCPU);
    auto* data = const_cast<std::byte*>(tensor.bytes().data());
    static std::byte nothing;  // ONNX Runtime refuses a null pointer even for an empty tensor
    return Ort::Value::CreateTensor(cpu, data ? data : &nothing, tensor.bytes().size(), tensor.shape().data(),
                                    tensor.shape().size(), type_of(tensor.dtype()));
  }

  // Outputs go straight to their place: their shapes are known from an earlier run.
  Result<RunResult> run_bound(const std::vector<const Tensor*>& inputs, const std::vector<Shape>& shapes,
                              const Placer& place) {
    return guarded("run", [&]() -> Result<RunResult> {
      Ort::IoBinding binding(session_);
      for (std::size_t i = 0; i < inputs.size(); ++i) binding.BindInput(inputs_[i].name.c_str(), wrap(*inputs[i]));
      RunResult result;
      for (std::size_t i = 0; i < outputs_.size(); ++i) {
        PW_TRY(tensor, place(outputs_[i].name, *outputs_[i].dtype, shapes[i]));
        binding.BindOutput(outputs_[i].name.c_str(), wrap(tensor));
        result.outputs.push_back({outputs_[i].name, tensor});
      }
      const auto start = Clock::now();
      session_.Run(Ort::RunOptions{nullptr}, binding);
      result.seconds = seconds_since(start);
      return result;
    });
  }

  // ONNX Runtime allocates the outputs; they are copied to their place and their shapes remembered.
  Result<RunResult> run_free(const std::vector<const Tensor*>& inputs, const Placer& place) {
    return guarded("run", [&]() -> Result<RunResult> {
      std::vector<const char*> input_names, output_names;
      std::vector<Ort::Value> values;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        input_names.push_back(inputs_[i].name.c_str());
        values.push_back(wrap(*inputs[i]));
      }
      for (const ValueInfo& output : outputs_) output_names.push_back(output.name.c_str());
      const auto start = Clock::now();
      auto made = session_.Run(Ort::RunOptions{nullptr}, input_names.data(), values.data(), values.size(),
                               output_names.data(), output_names.size());
      RunResult result;
      result.seconds = seconds_since(start);
      std::vector<Shape> shapes;
      for (std::size_t i = 0; i < made.size(); ++i) {
        PW_TRY(tensor, placed_copy(outputs_[i].name, made[i], place));
        shapes.push_back(tensor.shape());
        result.outputs.push_back({outputs_[i].name, tensor});
      }
      memory_.remember(inputs, std::move(shapes));
      return result;
    });
  }

  static Result<Tensor> placed_copy(const std::string& name, const Ort::Value& value, const Placer& place) {
    const auto unsupported = [&] {
      return fail({Fault::gate, "run", "unsupported",
                   "output '" + name + "' is not a tensor of a type that Portwright compares", name, "", ""});
    };
    if (!value.IsTensor()) return unsupported();
    const auto type = value.GetTensorTypeAndShapeInfo();
    const auto dtype = dtype_of(type.GetElementType());
    if (!dtype) return unsupported();
    PW_TRY(tensor, place(name, *dtype, type.GetShape()));
    std::copy_n(static_cast<const std::byte*>(value.GetTensorRawData()), tensor.bytes().size(),
                tensor.mutable_bytes().begin());
    return tensor;
  }

  Ort::Session session_;
  EngineInfo info_;
  std::vector<ValueInfo> inputs_, outputs_;
  ShapeMemory memory_;
};

GraphOptimizationLevel level_of(const std::string& name) {
  if (name == "off") return ORT_DISABLE_ALL;
  if (name == "basic") return ORT_ENABLE_BASIC;
  if (name == "extended") return ORT_ENABLE_EXTENDED;
  return ORT_ENABLE_ALL;
}

// "cuda:0" -> the execution provider and its device number.
Status add_provider(Ort::SessionOptions& options, const std::string& device) {
  if (device == "cpu") return {};
  const std::string kind = device.substr(0, device.find(':'));
  const std::string number = device.find(':') == std::string::npos ? "0" : device.substr(device.find(':') + 1);
  const std::string provider = kind == "cuda"       ? "CUDAExecutionProvider"
                               : kind == "tensorrt" ? "TensorrtExecutionProvider"
                                                    : kind;
  const auto available = Ort::GetAvailableProviders();
  if (std::find(available.begin(), available.end(), provider) == available.end()) {
    std::string known;
    for (const auto& name : available) known += (known.empty() ? "" : ", ") + name;
    return fail({Fault::environment, "compile", "environment",
                 "this ONNX Runtime has no provider for device '" + device + "'", device,
                 "it has " + known + "; install a build of ONNX Runtime for that device", ""});
  }
  if (kind == "cuda") {
    OrtCUDAProviderOptionsV2* cuda = nullptr;
    Ort::ThrowOnError(Ort::GetApi().CreateCUDAProviderOptions(&cuda));
    const std::unique_ptr<OrtCUDAProviderOptionsV2, void (*)(OrtCUDAProviderOptionsV2*)> owner(
        cuda, Ort::GetApi().ReleaseCUDAProviderOptions);
    const char* keys[] = {"device_id", "use_tf32"};
    const char* values[] = {number.c_str(), "0"};  // strict fp32: no TF32
    Ort::ThrowOnError(Ort::GetApi().UpdateCUDAProviderOptions(cuda, keys, values, 2));
    options.AppendExecutionProvider_CUDA_V2(*cuda);
    return {};
  }
  options.AppendExecutionProvider(provider, {{"device_id", number}});
  return {};
}

// The error names the node, its operator, or, of one that it does not know at all, "domain:Operator(-1)".
bool is_refused(const NodeOrigin& node, const Error& error) {
  return error.where == node.node || error.where == node.op_type ||
         error.message.find(":" + node.op_type + "(") != std::string::npos;
}

class OnnxRuntime : public Engine {
 public:
  std::string name() const override { return "onnxruntime"; }
  Result<std::string> available() const override {
    PW_TRY(base, library());
    return std::string(base->GetVersionString());
  }

  std::vector<std::string> devices() const override {
    std::vector<std::string> devices;
    if (!library()) return devices;
    for (const auto& provider : Ort::GetAvailableProviders()) {
      if (provider == "CPUExecutionProvider") devices.emplace_back("cpu");
      if (provider == "CUDAExecutionProvider") devices.emplace_back("cuda:0");
      if (provider == "TensorrtExecutionProvider") devices.emplace_back("tensorrt:0");
    }
    return devices;
  }
  // Kernels compute in the graph's own dtype.
  std::vector<std::string> precisions() const override { return {"fp32"}; }
  std::int64_t newest_opset() const override { return newest().opset; }
  std::int64_t newest_ir_version() const override { return newest().ir_version; }
  bool takes(std::int64_t opset, std::int64_t ir_version) const override {
    return library() && loads(identity_model(opset, ir_version));
  }

  // ONNX Runtime cannot be asked about single nodes: it is asked to load the graph unoptimised, and names the first
  // node that it has no kernel for.
  Result<std::vector<NodeSupport>> supports(const Model& model, const Target& target) const override {
    CompileOptions options{target, 1, "off", {}, {}};
    auto session = compile(model, options);
    std::vector<NodeSupport> answers;
    bool named = session.has_value();
    for (const NodeOrigin& node : model.nodes()) {
      NodeSupport answer{node.node, node.op_type, true, ""};
      if (!session && is_refused(node, session.error())) {
        answer.supported = false;
        answer.reason = session.error().message;
        named = true;
      }
      answers.push_back(std::move(answer));
    }
    if (!named) return fail(session.error());
    return answers;
  }

  // On another device than the CPU the first try forbids a silent fallback; when that fails the second allows it and
  // the session says that its device is mixed.
  Result<std::unique_ptr<Session>> compile(const Model& model, const CompileOptions& options) const override {
    PW_CHECK(library());
    auto session = compile_on(model, options, options.target.device != "cpu");
    if (session || options.target.device == "cpu" || session.error().fault == Fault::environment) return session;
    return compile_on(model, options, false);
  }

  Result<std::unique_ptr<Session>> load(const fs::path& folder, const CompileOptions& options) const override {
    PW_CHECK(library());
    PW_TRY(saved, read_json(folder / "engine.json"));
    PW_CHECK(check_portable(saved, version(), folder));
    return guarded("load", [&]() -> Result<std::unique_ptr<Session>> {
      const auto start = Clock::now();
      EngineInfo info;
      PW_TRY(settings, settings_for(options, info));
      settings.SetGraphOptimizationLevel(ORT_DISABLE_ALL);  // what was saved is optimised already
      Ort::Session session(environment(), (folder / saved.value("file", kEngineFile)).c_str(), settings);
      auto opened = std::make_unique<OrtSession>(std::move(session), info);
      opened->load_seconds = seconds_since(start);
      return opened;
    });
  }

 private:
  static Result<std::unique_ptr<Session>> compile_on(const Model& model, const CompileOptions& options,
                                                     bool no_fallback) {
    const auto start = Clock::now();
    PW_TRY(structure, model.structure());
    return guarded("compile", [&]() -> Result<std::unique_ptr<Session>> {
      EngineInfo info;
      PW_TRY(settings, settings_for(options, info));
      if (no_fallback)
        add_config(settings, info, kOrtSessionOptionsDisableCPUEPFallback, "1");
      else if (options.target.device != "cpu")
        info.device = "mixed: " + options.target.device + " and cpu";
      settings.SetGraphOptimizationLevel(level_of(options.optimization));
      info.options.emplace_back("graph_optimization_level", options.optimization);
      add_config(settings, info, kOrtSessionOptionsModelExternalInitializersFileFolderPath, model.folder().string());
      if (!options.disabled.empty()) {
        std::string all;
        for (const auto& name : options.disabled) all += (all.empty() ? "" : ";") + name;
        add_config(settings, info, kOrtSessionOptionsDisableSpecifiedOptimizers, all);
      }
      if (!options.save_to.empty()) PW_CHECK(save_optimised(settings, options.save_to));
      const double load_seconds = seconds_since(start);
      const auto compiling = Clock::now();
      Ort::Session session(environment(), structure.data(), structure.size(), settings);
      auto opened = std::make_unique<OrtSession>(std::move(session), info);
      opened->load_seconds = load_seconds;
      opened->compile_seconds = seconds_since(compiling);
      if (!options.save_to.empty()) {
        PW_TRY(digest, model.digest());
        PW_CHECK(write_json(options.save_to / "engine.json", engine_document(info, digest, kEngineFile)));
      }
      return opened;
    });
  }

  static void add_config(Ort::SessionOptions& settings, EngineInfo& info, const char* key, const std::string& value) {
    settings.AddConfigEntry(key, value.c_str());
    if (std::string_view(key) != kOrtSessionOptionsModelExternalInitializersFileFolderPath)
      info.options.emplace_back(key, value);
  }

  static Result<Ort::SessionOptions> settings_for(const CompileOptions& options, EngineInfo& info) {
    const Machine machine = this_machine();
    Ort::SessionOptions settings;
    info.name = "onnxruntime";
    info.version = version();
    info.device_asked = info.device = options.target.device;
    info.precision_asked = options.target.precision;
    info.precision_effective = info.default_precision = "fp32";
    info.cpu_features = machine.cpu_features;
    info.threads = options.threads > 0 ? options.threads : machine.cores;
    settings.SetIntraOpNumThreads(info.threads);
    PW_CHECK(add_provider(settings, options.target.device));
    return settings;
  }

  static Status save_optimised(Ort::SessionOptions& settings, const fs::path& folder) {
    PW_CHECK(make_folders(folder));
    settings.SetOptimizedModelFilePath((folder / kEngineFile).c_str());
    settings.AddConfigEntry(kOrtSessionOptionsOptimizedModelExternalInitializersFileName, "model.optimized.onnx.data");
    settings.AddConfigEntry(kOrtSessionOptionsOptimizedModelExternalInitializersMinSizeInBytes, "1024");
    return {};
  }

  static bool loads(const std::string& model) {
    try {
      Ort::SessionOptions settings;
      settings.SetIntraOpNumThreads(1);
      settings.SetLogSeverityLevel(ORT_LOGGING_LEVEL_FATAL);
      Ort::Session session(environment(), model.data(), model.size(), settings);
      return true;
    } catch (const Ort::Exception&) {
      return false;
    }
  }

  static const Newest& newest() {
    static const Newest found = library() ? newest_versions(loads) : Newest{};
    return found;
  }
};

}  // namespace

std::unique_ptr<Engine> make_onnxruntime() { return std::make_unique<OnnxRuntime>(); }

}  // namespace portwright
