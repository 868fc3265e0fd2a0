#include "engine/torch/source.h"

namespace portwright {
namespace {

Json to_json(const std::vector<InputSpec>& specs) {
  Json list = Json::array();
  for (const InputSpec& spec : specs)
    list.push_back(
        Json{{"name", spec.name}, {"shape", spec.shape}, {"dtype", to_string(spec.dtype)}, {"values", spec.values}});
  return list;
}

Json to_json(const std::vector<DynamicAxis>& axes) {
  Json list = Json::array();
  for (const DynamicAxis& axis : axes) {
    Json entry{{"input", axis.input}, {"axis", axis.axis}, {"symbol", axis.symbol}, {"min", axis.min}};
    entry["opt"] = axis.opt > 0 ? Json(axis.opt) : Json();
    entry["max"] = axis.max > 0 ? Json(axis.max) : Json();
    list.push_back(std::move(entry));
  }
  return list;
}

std::vector<InputSpec> specs_from(const Json& list) {
  std::vector<InputSpec> specs;
  for (const auto& entry : list) {
    InputSpec spec;
    spec.name = entry.at("name").get<std::string>();
    spec.shape = entry.at("shape").get<Shape>();
    spec.dtype = dtype_from(entry.at("dtype").get<std::string>()).value_or(Dtype::f32);
    if (entry.contains("values") && entry["values"].is_string()) spec.values = entry["values"].get<std::string>();
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::vector<DynamicAxis> axes_from(const Json& list) {
  const auto integer = [](const Json& entry, const char* key, std::int64_t missing) {
    return entry.contains(key) && entry[key].is_number_integer() ? entry[key].get<std::int64_t>() : missing;
  };
  std::vector<DynamicAxis> axes;
  for (const auto& entry : list)
    axes.push_back({entry.at("input").get<std::string>(), entry.at("axis").get<int>(),
                    entry.at("symbol").get<std::string>(), integer(entry, "min", 1), integer(entry, "opt", 0),
                    integer(entry, "max", 0)});
  return axes;
}

bool died(const Error& error) {
  return error.stage == "worker" &&
         (error.code == "crashed" || error.code == "timed_out" || error.code == "out_of_memory");
}

}  // namespace

Json to_json(const ExportResult& result) {
  return Json{{"exporter", result.exporter},
              {"opset_asked", result.opset_asked ? Json(*result.opset_asked) : Json()},
              {"opset_produced", result.opset_produced},
              {"ir_version", result.ir_version},
              {"inputs", result.inputs},
              {"outputs", result.outputs},
              {"dynamic_axes", result.dynamic_axes},
              {"static_axes", result.static_axes},
              {"assumptions", result.assumptions}};
}

Result<std::unique_ptr<Source>> Source::open(SourceOptions options) {
  std::unique_ptr<Source> source(new Source(std::move(options)));
  PW_CHECK(source->start());
  return source;
}

Result<Worker> start_python(const std::string& python, const std::filesystem::path& log, WorkerLimits limits,
                            std::shared_ptr<double> waited) {
  WorkerCommand command;
  command.argv = {python, "-m", "portwright.worker"};
  command.environment = {"PYTHONPATH=" + python_path(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1"};
  command.log = log;
  command.limits = limits;
  command.waited = std::move(waited);
  return Worker::start(std::move(command));
}

Status Source::start() {
  PW_TRY(worker, start_python(options_.python, options_.log, options_.limits, options_.waited));
  worker_ = std::move(worker);
  PW_TRY(hello, worker_->call("hello", Json::object()));
  versions_ = hello.value("versions", Json::object());
  PW_TRY(reply, worker_->call("open", Json{{"source", options_.source},
                                           {"seed", options_.seed},
                                           {"inputs", to_json(options_.inputs)},
                                           {"dynamic", to_json(options_.dynamic)},
                                           {"threads", options_.threads}}));
  description_ = reply;
  handle_ = reply.at("handle").get<int>();
  digest_ = reply.value("source_digest", std::string());
  inputs_.specs = specs_from(reply.at("inputs"));
  inputs_.dynamic = options_.dynamic.empty() ? axes_from(reply.at("dynamic")) : options_.dynamic;
  example_.reset();
  if (reply.contains("tensors") && reply["tensors"].is_array()) {
    PW_TRY(views, worker_->get(reply["tensors"]));
    example_.emplace();
    for (const auto& [name, tensor] : views) example_->push_back({name, tensor.clone()});
  }
  return {};
}

// A worker that died is replaced before the next call, not behind the back of the one that failed.
Result<Json> Source::call(std::string_view op, Json request) {
  if (!worker_->alive()) PW_CHECK(start());
  request["handle"] = request.contains("handle") ? request["handle"] : Json(handle_);
  auto reply = worker_->call(op, std::move(request));
  if (!reply && died(reply.error())) {
    Error error = reply.error();
    error.message = options_.source + ": PyTorch's worker failed in " + std::string(op) + ": " + error.message;
    return fail(std::move(error));
  }
  return reply;
}

Result<Json> Source::export_call(std::string_view op, const ExportRequest& request) {
  PW_TRY(example, worker_->put(request.example));
  return call(op, Json{{"path", request.path.string()},
                       {"exporter", request.exporter},
                       {"opset", request.opset ? Json(*request.opset) : Json()},
                       {"dynamic", to_json(inputs_.dynamic)},
                       {"inputs", example}});
}

Result<Tensors> Source::copied(const Json& described) {
  PW_TRY(views, worker_->get(described));
  Tensors tensors;
  for (const auto& [name, tensor] : views) tensors.push_back({name, tensor.clone()});
  return tensors;
}

Result<ExportResult> Source::export_onnx(const ExportRequest& request) {
  PW_TRY(reply, export_call("export", request));
  ExportResult result;
  result.exporter = reply.value("exporter", request.exporter);
  result.opset_asked = request.opset;
  result.opset_produced = reply.value("opset_produced", std::int64_t{0});
  result.ir_version = reply.value("ir_version", std::int64_t{0});
  result.inputs = reply.value("inputs", std::vector<std::string>());
  result.outputs = reply.value("outputs", std::vector<std::string>());
  result.dynamic_axes = reply.value("dynamic_axes", std::vector<std::string>());
  result.static_axes = reply.value("static_axes", std::vector<std::string>());
  result.assumptions = reply.value("assumptions", Json::array());
  result.seconds = reply.value("seconds", 0.0);
  return result;
}

Result<Tensors> Source::trace(const ExportRequest& request) {
  PW_TRY(reply, export_call("trace", request));
  return copied(reply.at("outputs"));
}

Result<Tensors> Source::forward(const Tensors& inputs, const std::string& precision) {
  PW_TRY(described, worker_->put(inputs));
  PW_TRY(reply,
         call("forward",
              Json{{"inputs", described}, {"precision", precision}, {"mode", "eager"}, {"threads", options_.threads}}));
  return copied(reply.at("outputs"));
}

}  // namespace portwright
