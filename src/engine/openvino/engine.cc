#include "engine/openvino/engine.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <map>
#include <openvino/openvino.hpp>
#include <regex>
#include <set>

#include "base/files.h"
#include "base/machine.h"
#include "engine/placing.h"
#include "engine/probe.h"
#include "engine/records.h"

namespace portwright {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr const char* kEngineFile = "engine.blob";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const std::array<std::pair<ov::element::Type_t, Dtype>, 13>& dtypes() {
  static const std::array<std::pair<ov::element::Type_t, Dtype>, 13> table{{
      {ov::element::Type_t::f32, Dtype::f32},
      {ov::element::Type_t::f64, Dtype::f64},
      {ov::element::Type_t::f16, Dtype::f16},
      {ov::element::Type_t::bf16, Dtype::bf16},
      {ov::element::Type_t::i8, Dtype::i8},
      {ov::element::Type_t::i16, Dtype::i16},
      {ov::element::Type_t::i32, Dtype::i32},
      {ov::element::Type_t::i64, Dtype::i64},
      {ov::element::Type_t::u8, Dtype::u8},
      {ov::element::Type_t::u16, Dtype::u16},
      {ov::element::Type_t::u32, Dtype::u32},
      {ov::element::Type_t::u64, Dtype::u64},
      {ov::element::Type_t::boolean, Dtype::boolean},
  }};
  return table;
}
std::optional<Dtype> dtype_of(const ov::element::Type& type) {
  for (const auto& [theirs, ours] : dtypes())
    if (type == theirs) return ours;
  return std::nullopt;
}
ov::element::Type type_of(Dtype dtype) {
  for (const auto& [theirs, ours] : dtypes())
    if (ours == dtype) return theirs;
  return ov::element::dynamic;
}

// OpenVINO's names of precisions, as Portwright writes them.
std::string precision_name(const std::string& theirs) {
  if (theirs == "f32" || theirs == "float32") return "fp32";
  if (theirs == "f16" || theirs == "float16") return "fp16";
  if (theirs == "bfloat16") return "bf16";
  return theirs;
}
ov::element::Type hint_for(const std::string& precision) {
  if (precision == "bf16") return ov::element::bf16;
  if (precision == "fp16") return ov::element::f16;
  return ov::element::f32;
}

std::string device_name(const std::string& device) {
  if (device == "cpu") return "CPU";
  std::string name;
  for (const char c : device) name += c == ':' ? '.' : static_cast<char>(std::toupper(c));
  return name;
}

// OpenVINO's messages are many lines with source positions. The reason is what says that something is not supported or
// not converted, else the first line that says anything.
std::string reason_in(const std::string& what) {
  constexpr const char* kTelling[] = {"No conversion rule", "not supported", "does not support", "Failed to convert"};
  constexpr const char* kSilent[] = {"Exception from", "FrontEnd API failed", "Model wasn't fully converted",
                                     "While validating", "with a message:"};
  std::istringstream lines(what);
  std::string first_line;
  for (std::string line; std::getline(lines, line);) {
    const auto start = line.find_first_not_of(" \t-");
    const auto occurs = [&](const char* phrase) { return line.find(phrase) != std::string::npos; };
    if (start == std::string::npos || line.find("Check '") == 0) continue;
    if (std::any_of(std::begin(kSilent), std::end(kSilent), occurs)) continue;
    std::string text = line.substr(start);
    for (const char* phrase : kTelling)
      if (text.find(phrase) != std::string::npos) return text;
    if (first_line.empty()) first_line = text;
  }
  return first_line.empty() ? what.substr(0, what.find('\n')) : first_line;
}

// "While validating ONNX node '<Node(Split): split_3>'": operator and name; empty when there is none.
std::pair<std::string, std::string> node_in(const std::string& what) {
  static const std::regex pattern(R"(<Node\((\w+)\): ([^>]*)>)");
  std::smatch match;
  return std::regex_search(what, match, pattern) ? std::pair(match[1].str(), match[2].str())
                                                 : std::pair<std::string, std::string>();
}

Error openvino_error(const char* stage, const std::string& what) {
  const auto [op, node] = node_in(what);
  const std::string at = node.empty() ? "" : op + " '" + node + "': ";
  const std::string code = std::string_view(stage) == "run" ? "run_failed" : "unsupported";
  return {Fault::gate, stage, code, "OpenVINO: " + at + reason_in(what), node, "", what};
}

template <class F>
auto guarded(const char* stage, F&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return fail({Fault::gate, stage, "out_of_memory", "OpenVINO ran out of memory", "", "", ""});
  } catch (const std::exception& e) {
    return fail(openvino_error(stage, e.what()));
  }
}

ov::Core& core() {
  static ov::Core one;  // loads its plugins once for each process
  return one;
}

std::string version() {
  const std::string build = ov::get_openvino_version().buildNumber;  // "2026.4.1-21234-abc"
  return build.substr(0, build.find('-'));
}

// The names of a model's inputs and outputs, in order.
struct PortNames {
  std::vector<std::string> inputs, outputs;
};

std::vector<std::string> names_of(const std::vector<ValueInfo>& values) {
  std::vector<std::string> out;
  for (const ValueInfo& value : values) out.push_back(value.name);
  return out;
}

// A port has the names of all tensors that OpenVINO has found to be the same: the model's own is the one at its place.
std::string name_of(const ov::Output<const ov::Node>& port, std::size_t place, const std::vector<std::string>& names) {
  const auto& known = port.get_names();
  if (place < names.size() && known.contains(names[place])) return names[place];
  const auto found = std::find_if(names.begin(), names.end(), [&](const auto& name) { return known.contains(name); });
  if (found != names.end()) return *found;
  // A tensor that is both keeps the output's name alone; the input is still called as the model calls it.
  const std::string& node = port.get_node()->get_friendly_name();
  return std::find(names.begin(), names.end(), node) == names.end() ? port.get_any_name() : node;
}

ValueInfo value_info(const ov::Output<const ov::Node>& port, std::size_t place, const std::vector<std::string>& names) {
  ValueInfo info;
  info.name = name_of(port, place, names);
  info.dtype = dtype_of(port.get_element_type());
  info.type_text = info.dtype ? std::string(to_string(*info.dtype)) : port.get_element_type().get_type_name();
  const auto& shape = port.get_partial_shape();
  info.has_shape = shape.rank().is_static();
  if (!info.has_shape) return info;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    Dimension dim;
    if (shape[i].is_static()) dim.value = shape[i].get_length();
    info.type_text += (i ? ", " : "[") + (dim.value ? std::to_string(*dim.value) : "?");
    info.shape.push_back(dim);
  }
  if (shape.size() > 0) info.type_text += "]";
  return info;
}

// What the compiled graph computes in: the precision of most of its working nodes, from the runtime model.
std::string effective_precision(const ov::CompiledModel& model) {
  static const std::set<std::string> kNotWork{"Input",   "Output",    "Const",   "Constant",      "Parameter",
                                              "Result",  "Reorder",   "Convert", "Reshape",       "Shape",
                                              "ShapeOf", "Broadcast", "Gather",  "Concatenation", "StridedSlice"};
  std::map<std::string, std::size_t> counts;
  for (const auto& node : model.get_runtime_model()->get_ordered_ops()) {
    const auto& facts = node->get_rt_info();
    const auto type = facts.find("layerType");
    const auto precision = facts.find("runtimePrecision");
    if (type == facts.end() || precision == facts.end() || kNotWork.contains(type->second.as<std::string>())) continue;
    const auto name = precision_name(precision->second.as<ov::element::Type>().get_type_name());
    if (name == "fp32" || name == "fp16" || name == "bf16" || name == "i8" || name == "u8")
      ++counts[name == "u8" || name == "i8" ? "int8" : name];
  }
  std::string most = precision_name(model.get_property(ov::hint::inference_precision).get_type_name());
  std::size_t best = 0;
  for (const auto& [name, count] : counts)
    if (count > best) {
      best = count;
      most = name;
    }
  return most;
}

class OvSession : public PlacingSession {
 public:
  OvSession(ov::CompiledModel model, EngineInfo info, const PortNames& names)
      : model_(std::move(model)),
        request_(model_.create_infer_request()),
        info_(std::move(info)),
        model_inputs_(names.inputs) {
    for (const auto& port : model_.inputs()) inputs_.push_back(value_info(port, inputs_.size(), names.inputs));
    for (const auto& port : model_.outputs()) outputs_.push_back(value_info(port, outputs_.size(), names.outputs));
  }

  const EngineInfo& info() const override { return info_; }
  const std::vector<ValueInfo>& inputs() const override { return inputs_; }
  const std::vector<ValueInfo>& outputs() const override { return outputs_; }
  ov::CompiledModel& compiled() { return model_; }

  Result<RunResult> run_into(const Tensors& inputs, const Placer& place) override {
    PW_TRY(ordered, ordered_inputs(inputs_, inputs, model_inputs_));
    return guarded("run", [&]() -> Result<RunResult> {
      const auto* shapes = memory_.find(ordered);
      if (shapes == nullptr && bound_) forget_bound_outputs();
      for (std::size_t i = 0; i < ordered.size(); ++i) request_.set_input_tensor(i, wrap(*ordered[i]));
      RunResult result;
      if (shapes != nullptr) PW_CHECK(bind_outputs(*shapes, place, result));
      const auto start = Clock::now();
      request_.infer();
      result.seconds = seconds_since(start);
      if (shapes != nullptr && outputs_in_place(result)) return result;
      PW_CHECK(copy_outputs(ordered, place, result));
      return result;
    });
  }

 private:
  static ov::Tensor wrap(const Tensor& tensor) {
    static std::byte nothing;
    auto* data = const_cast<std::byte*>(tensor.bytes().data());
    return ov::Tensor(type_of(tensor.dtype()), ov::Shape(tensor.shape().begin(), tensor.shape().end()),
                      data ? data : &nothing);
  }

  Status bind_outputs(const std::vector<Shape>& shapes, const Placer& place, RunResult& result) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      PW_TRY(tensor, place(outputs_[i].name, *outputs_[i].dtype, shapes[i]));
      request_.set_output_tensor(i, wrap(tensor));
      bound_ = true;
      result.outputs.push_back({outputs_[i].name, tensor});
    }
    return {};
  }

  // A request keeps the outputs that it was given, and cannot grow them to a larger shape.
  void forget_bound_outputs() {
    request_ = model_.create_infer_request();
    bound_ = false;
  }

  bool outputs_in_place(const RunResult& result) {
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const auto made = request_.get_output_tensor(i);
      const auto& given = result.outputs[i].tensor;
      if (made.data() != given.bytes().data() || made.get_byte_size() != given.bytes().size()) return false;
    }
    return true;
  }

  Status copy_outputs(const std::vector<const Tensor*>& inputs, const Placer& place, RunResult& result) {
    const bool predicted = !result.outputs.empty();
    result.outputs.clear();
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const auto made = request_.get_output_tensor(i);
      if (!outputs_[i].dtype)
        return fail({Fault::gate, "run", "unsupported",
                     "output '" + outputs_[i].name + "' has type " + outputs_[i].type_text, outputs_[i].name, "", ""});
      const ov::Shape& dims = made.get_shape();
      Shape shape(dims.begin(), dims.end());
      PW_TRY(tensor, place(outputs_[i].name, *outputs_[i].dtype, shape));
      std::copy_n(static_cast<const std::byte*>(made.data()), tensor.bytes().size(), tensor.mutable_bytes().begin());
      shapes.push_back(std::move(shape));
      result.outputs.push_back({outputs_[i].name, tensor});
    }
    if (predicted) {
      memory_.distrust();
      forget_bound_outputs();
    } else {
      memory_.remember(inputs, std::move(shapes));
    }
    return {};
  }

  ov::CompiledModel model_;
  ov::InferRequest request_;
  EngineInfo info_;
  std::vector<std::string> model_inputs_;  // those that OpenVINO has dropped among them
  std::vector<ValueInfo> inputs_, outputs_;
  ShapeMemory memory_;
  bool bound_ = false;  // outputs of the request are somebody else's memory
};

// The structure as a file from which OpenVINO finds the weights: it resolves external data only beside a file, so the
// file is written beside the weights, or, where that folder is read-only, into a scratch folder of links to them.
class StructureFile {
 public:
  static Result<StructureFile> write(const Model& model) {
    PW_TRY(structure, model.structure());
    StructureFile file;
    file.path_ = model.folder() / (".portwright-structure-" + std::to_string(::getpid()) + ".onnx");
    if (write_atomically(file.path_, structure)) return file;
    PW_TRY(scratch, ScratchFolder::make("portwright-structure-"));
    PW_CHECK(link_weights(model.folder(), scratch.path()));
    file.path_ = scratch.path() / "model.onnx.structure";
    file.scratch_ = std::move(scratch);
    PW_CHECK(write_atomically(file.path_, structure));
    return file;
  }
  StructureFile(StructureFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), scratch_(std::move(other.scratch_)) {}
  StructureFile& operator=(StructureFile&&) = delete;
  ~StructureFile() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  StructureFile() = default;
  // Hard links, since OpenVINO refuses a symbolic link that leaves the folder; copies where links cannot be made.
  static Status link_weights(const fs::path& from, const fs::path& to) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(from, code)) {
      if (!entry.is_regular_file(code)) continue;
      fs::create_hard_link(entry.path(), to / entry.path().filename(), code);
      if (code) fs::copy_file(entry.path(), to / entry.path().filename(), code);
      if (code) return fail(file_error("compile", "cannot_write", to / entry.path().filename(), code.value()));
    }
    return {};
  }
  fs::path path_;
  std::optional<ScratchFolder> scratch_;
};

class OpenVino : public Engine {
 public:
  std::string name() const override { return "openvino"; }
  Result<std::string> available() const override {
    return guarded("available", []() -> Result<std::string> {
      core().get_available_devices();
      return version();
    });
  }
  std::vector<std::string> devices() const override {
    std::vector<std::string> devices;
    try {
      for (std::string name : core().get_available_devices()) {
        for (char& c : name) c = c == '.' ? ':' : static_cast<char>(std::tolower(c));
        devices.push_back(std::move(name));
      }
    } catch (const std::exception&) {
    }
    return devices;
  }
  std::vector<std::string> precisions() const override {
    std::vector<std::string> names;
    try {
      for (const std::string& name : core().get_property("CPU", ov::device::capabilities)) {
        if (name == ov::device::capability::FP32) names.emplace_back("fp32");
        if (name == ov::device::capability::FP16) names.emplace_back("fp16");
        if (name == ov::device::capability::BF16) names.emplace_back("bf16");
        if (name == ov::device::capability::INT8) names.emplace_back("int8");
      }
    } catch (const std::exception&) {
    }
    return names;
  }
  std::int64_t newest_opset() const override { return newest().opset; }
  std::int64_t newest_ir_version() const override { return newest().ir_version; }
  bool takes(std::int64_t opset, std::int64_t ir_version) const override {
    return loads(identity_model(opset, ir_version));
  }

  Result<std::vector<NodeSupport>> supports(const Model& model, const Target& target) const override {
    const auto refused = refused_nodes(model, target);
    std::vector<NodeSupport> answers;
    bool named = refused.has_value();
    for (const NodeOrigin& node : model.nodes()) {
      NodeSupport answer{node.node, node.op_type, true, ""};
      if (refused && refused->contains(node.node)) {
        answer.supported = false;
        answer.reason = "the device's plugin does not take it";
      } else if (!refused && names_node(refused.error(), node)) {
        answer.supported = false;
        answer.reason = refused.error().message;
        named = true;
      }
      answers.push_back(std::move(answer));
    }
    if (!named) return fail(refused.error());
    return answers;
  }

  Result<std::unique_ptr<Session>> compile(const Model& model, const CompileOptions& options) const override {
    return guarded("compile", [&]() -> Result<std::unique_ptr<Session>> {
      PW_CHECK(check_device(options.target.device));
      const auto start = Clock::now();
      PW_TRY(file, StructureFile::write(model));
      const auto read = core().read_model(file.path());
      const double load_seconds = seconds_since(start);
      EngineInfo info = asked(options);
      const auto compiling = Clock::now();
      auto compiled = core().compile_model(read, device_name(options.target.device), properties(options, info));
      auto session = finish(std::move(compiled), info, {names_of(model.inputs()), names_of(model.outputs())});
      session->load_seconds = load_seconds;
      session->compile_seconds = seconds_since(compiling);
      if (!options.save_to.empty()) PW_CHECK(save(*session, model, options.save_to));
      return session;
    });
  }

  Result<std::unique_ptr<Session>> load(const fs::path& folder, const CompileOptions& options) const override {
    PW_TRY(saved, read_json(folder / "engine.json"));
    PW_CHECK(check_portable(saved, version(), folder));
    return guarded("load", [&]() -> Result<std::unique_ptr<Session>> {
      const auto start = Clock::now();
      std::ifstream blob(folder / saved.value("file", kEngineFile), std::ios::binary);
      EngineInfo info = asked(options);
      auto compiled = core().import_model(blob, device_name(options.target.device), properties(options, info));
      auto session = finish(
          std::move(compiled), info,
          {saved.value("inputs", std::vector<std::string>()), saved.value("outputs", std::vector<std::string>())});
      session->load_seconds = seconds_since(start);
      return session;
    });
  }

 private:
  // Names of nodes that the device does not take. An error when the model cannot even be read.
  static Result<std::set<std::string>> refused_nodes(const Model& model, const Target& target) {
    return guarded("supports", [&]() -> Result<std::set<std::string>> {
      PW_TRY(file, StructureFile::write(model));
      std::set<std::string> refused;
      const auto read = core().read_model(file.path());
      const auto known = core().query_model(read, device_name(target.device));
      for (const auto& op : read->get_ordered_ops())
        if (!known.contains(op->get_friendly_name())) refused.insert(op->get_friendly_name());
      return refused;
    });
  }

  // "No conversion rule found for operations: com.example.Strange, Other"; or the node at which reading ended.
  static bool names_node(const Error& error, const NodeOrigin& node) {
    if (error.where == node.node) return true;
    const auto list = error.message.find("operations: ");
    if (list == std::string::npos) return false;
    static const std::regex word(R"([^,\s]+)");
    const std::string names = error.message.substr(list + 12);
    for (std::sregex_iterator it(names.begin(), names.end(), word), end; it != end; ++it) {
      std::string name = it->str();
      name = name.substr(0, name.find_last_of('-'));  // "ImageDecoder-20"
      if (name.substr(name.find_last_of('.') + 1) == node.op_type) return true;
    }
    return false;
  }

  static Status check_device(const std::string& device) {
    const auto known = core().get_available_devices();
    std::string all;
    for (const auto& name : known) {
      if (name == device_name(device) || device_name(device).starts_with(name)) return {};
      all += (all.empty() ? "" : ", ") + name;
    }
    return fail({Fault::environment, "compile", "environment", "OpenVINO sees no device '" + device + "'", device,
                 "it sees " + all, ""});
  }

  static EngineInfo asked(const CompileOptions& options) {
    const Machine machine = this_machine();
    EngineInfo info;
    info.name = "openvino";
    info.version = version();
    info.device_asked = options.target.device;
    info.precision_asked = options.target.precision;
    info.cpu_features = machine.cpu_features;
    info.threads = options.threads > 0 ? options.threads : machine.cores;
    return info;
  }

  // The precision is always pinned: newer CPUs would otherwise compute in bf16 unasked.
  static ov::AnyMap properties(const CompileOptions& options, EngineInfo& info) {
    info.default_precision = precision_name(
        core().get_property(device_name(options.target.device), ov::hint::inference_precision).get_type_name());
    const ov::element::Type hint = hint_for(options.target.precision);
    info.options = {{"INFERENCE_PRECISION_HINT", hint.get_type_name()},
                    {"PERFORMANCE_HINT", "LATENCY"},
                    {"INFERENCE_NUM_THREADS", std::to_string(info.threads)}};
    return {ov::hint::inference_precision(hint), ov::hint::performance_mode(ov::hint::PerformanceMode::LATENCY),
            ov::inference_num_threads(info.threads)};
  }

  static std::unique_ptr<OvSession> finish(ov::CompiledModel compiled, EngineInfo info, const PortNames& names) {
    info.precision_effective = effective_precision(compiled);
    info.device.clear();
    for (const auto& name : compiled.get_property(ov::execution_devices)) {
      std::string lower;
      for (const char c : name) lower += c == '.' ? ':' : static_cast<char>(std::tolower(c));
      info.device += (info.device.empty() ? "" : " and ") + lower;
    }
    return std::make_unique<OvSession>(std::move(compiled), std::move(info), names);
  }

  static Status save(OvSession& session, const Model& model, const fs::path& folder) {
    PW_CHECK(make_folders(folder));
    std::ostringstream blob;
    session.compiled().export_model(blob);
    PW_CHECK(write_atomically(folder / kEngineFile, blob.view()));
    PW_TRY(digest, model.digest());
    Json document = engine_document(session.info(), digest, kEngineFile);
    document["inputs"] = names_of(model.inputs());
    document["outputs"] = names_of(model.outputs());
    return write_json(folder / "engine.json", document);
  }

  static bool loads(const std::string& model) {
    try {
      core().read_model(model, ov::Tensor());
      return true;
    } catch (const std::exception&) {
      return false;
    }
  }

  static const Newest& newest() {
    static const Newest found = newest_versions(loads);
    return found;
  }
};

}  // namespace

std::unique_ptr<Engine> make_openvino() { return std::make_unique<OpenVino>(); }

}  // namespace portwright
