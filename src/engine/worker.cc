#include "engine/worker.h"

#include <cstring>

#include "base/process.h"
#include "engine/placing.h"
#include "engine/records.h"
#include "portwright/verdict.h"

namespace portwright {
namespace {

// ---- the worker's side ----

class Host {
 public:
  Result<Json> handle(std::string_view op, const Json& request, WorkerBoxes& boxes) {
    if (op == "compile") return compile(request, boxes);
    if (op == "load") return load(request);
    if (op == "supports") return supports(request, boxes);
    if (!session_) return fail({Fault::defect, "worker", "no_session", "nothing is compiled yet", "", "", ""});
    if (op == "run") return run(request, boxes);
    if (op == "time") return time(request, boxes);
    return fail({Fault::defect, "worker", "bad_op", "unknown operation '" + std::string(op) + "'", "", "", ""});
  }

 private:
  static Result<Model> model_of(const Json& request, WorkerBoxes& boxes) {
    PW_TRY(tensors, get_tensors(boxes.inbox, request.at("structure")));
    const auto bytes = tensors.at(0).tensor.as<char>();
    return Model::from_structure(std::string(bytes.begin(), bytes.end()), request.at("folder").get<std::string>());
  }

  Result<Json> opened(Result<std::unique_ptr<Session>> session) {
    if (!session) return fail(session.error());
    session_.reset(dynamic_cast<PlacingSession*>(session->release()));
    return Json{{"info", to_json(session_->info())},
                {"inputs", to_json(session_->inputs())},
                {"outputs", to_json(session_->outputs())},
                {"load_seconds", session_->load_seconds},
                {"compile_seconds", session_->compile_seconds}};
  }

  Result<Json> compile(const Json& request, WorkerBoxes& boxes) {
    PW_TRY(model, model_of(request, boxes));
    const CompileOptions options = compile_options_from(request.at("options"));
    PW_TRY(engine, find_engine(options.target.engine));
    return opened(engine->compile(model, options));
  }

  Result<Json> load(const Json& request) {
    const CompileOptions options = compile_options_from(request.at("options"));
    PW_TRY(engine, find_engine(options.target.engine));
    return opened(engine->load(request.at("engine_folder").get<std::string>(), options));
  }

  static Result<Json> supports(const Json& request, WorkerBoxes& boxes) {
    PW_TRY(model, model_of(request, boxes));
    const CompileOptions options = compile_options_from(request.at("options"));
    PW_TRY(engine, find_engine(options.target.engine));
    PW_TRY(answers, engine->supports(model, options.target));
    Json nodes = Json::array();
    for (const NodeSupport& node : answers)
      nodes.push_back(
          Json{{"node", node.node}, {"op_type", node.op_type}, {"supported", node.supported}, {"reason", node.reason}});
    return Json{{"nodes", nodes}};
  }

  // Outputs are made where the parent reads them.
  Result<Json> run(const Json& request, WorkerBoxes& boxes) {
    PW_TRY(inputs, get_tensors(boxes.inbox, request.at("inputs")));
    std::size_t end = 0;
    const Placer place = [&](const std::string&, Dtype dtype, const Shape& shape) -> Result<Tensor> {
      const std::size_t offset = (end + 63) / 64 * 64;
      end = offset + element_count(shape).value_or(0) * size_of(dtype);
      PW_CHECK(boxes.outbox.grow(end));
      PW_TRY(memory, boxes.outbox.map(end));
      return Tensor::view(dtype, shape, memory.get() + offset, memory);
    };
    PW_TRY(result, session_->run_into(inputs, place));
    PW_TRY(outputs, put_tensors(boxes.outbox, result.outputs));
    return Json{{"outputs", outputs}, {"seconds", result.seconds}};
  }

  Result<Json> time(const Json& request, WorkerBoxes& boxes) {
    PW_TRY(inputs, get_tensors(boxes.inbox, request.at("inputs")));
    PW_TRY(seconds, session_->time(inputs, request.at("runs").get<int>()));
    return Json{{"seconds", seconds}};
  }

  std::unique_ptr<PlacingSession> session_;
};

// ---- the parent's side ----

class RemoteSession : public Session {
 public:
  RemoteSession(Worker worker, const Json& opened)
      : worker_(std::move(worker)),
        info_(engine_info_from(opened.at("info"))),
        inputs_(value_infos_from(opened.at("inputs"))),
        outputs_(value_infos_from(opened.at("outputs"))) {
    load_seconds = opened.at("load_seconds").get<double>();
    compile_seconds = opened.at("compile_seconds").get<double>();
  }

  const EngineInfo& info() const override { return info_; }
  const std::vector<ValueInfo>& inputs() const override { return inputs_; }
  const std::vector<ValueInfo>& outputs() const override { return outputs_; }

  Result<RunResult> run(const Tensors& inputs) override {
    PW_TRY(described, worker_.put(inputs));
    PW_TRY(reply, worker_.call("run", Json{{"inputs", described}}));
    PW_TRY(outputs, worker_.get(reply.at("outputs")));
    return RunResult{std::move(outputs), reply.at("seconds").get<double>()};
  }

  Result<Tensors> stage(const Tensors& inputs) override { return worker_.stage(inputs); }

  Result<std::vector<double>> time(const Tensors& inputs, int runs) override {
    PW_TRY(described, worker_.put(inputs));
    PW_TRY(reply, worker_.call("time", Json{{"inputs", described}, {"runs", runs}}));
    return reply.at("seconds").get<std::vector<double>>();
  }

  std::size_t peak_memory() const override { return worker_.peak_memory(); }

 private:
  Worker worker_;
  EngineInfo info_;
  std::vector<ValueInfo> inputs_, outputs_;
};

Result<Worker> start_worker(const Isolation& isolation) {
  WorkerCommand command;
  command.argv = {own_program().string(), "engine-worker"};
  command.log = isolation.log;
  command.limits = {isolation.timeout, isolation.memory_bytes};
  command.waited = isolation.waited;
  return Worker::start(std::move(command));
}

// The request that carries a model: its structure through shared memory, its weights by the folder they lie in.
Result<Json> model_request(Worker& worker, const Model& model, const CompileOptions& options) {
  PW_TRY(structure, model.structure());
  Tensor bytes = Tensor::uninitialised(Dtype::u8, {static_cast<std::int64_t>(structure.size())});
  std::memcpy(bytes.mutable_bytes().data(), structure.data(), structure.size());
  PW_TRY(described, worker.put({{"structure", bytes}}));
  return Json{{"structure", described}, {"folder", model.folder().string()}, {"options", to_json(options)}};
}

Error about_engine(Error error, const char* stage, const Target& target) {
  error.stage = stage;
  if (verdict_from(error.code)) error.message = target.text + ": " + error.message;
  return error;
}

}  // namespace

int engine_worker_main() {
  Host host;
  const auto served = serve(
      [&](std::string_view op, const Json& request, WorkerBoxes& boxes) { return host.handle(op, request, boxes); });
  return served ? 0 : 1;
}

Result<std::vector<NodeSupport>> ask_support(const Model& model, const Target& target, const Isolation& isolation) {
  PW_TRY(worker, start_worker(isolation));
  CompileOptions options;
  options.target = target;
  PW_TRY(request, model_request(worker, model, options));
  PW_TRY(reply, worker.call("supports", request));
  std::vector<NodeSupport> answers;
  for (const auto& node : reply.at("nodes"))
    answers.push_back({node.at("node"), node.at("op_type"), node.at("supported"), node.at("reason")});
  return answers;
}

Result<std::unique_ptr<Session>> open_session(const Model& model, const CompileOptions& options,
                                              const Isolation& isolation) {
  PW_TRY(engine, find_engine(options.target.engine));
  if (isolation.in_process) return engine->compile(model, options);
  PW_TRY(worker, start_worker(isolation));
  PW_TRY(request, model_request(worker, model, options));
  auto reply = worker.call("compile", request);
  if (!reply) return fail(about_engine(reply.error(), "compile", options.target));
  return std::make_unique<RemoteSession>(std::move(worker), *reply);
}

Result<std::unique_ptr<Session>> open_saved(const std::filesystem::path& folder, const CompileOptions& options,
                                            const Isolation& isolation) {
  PW_TRY(engine, find_engine(options.target.engine));
  if (isolation.in_process) return engine->load(folder, options);
  PW_TRY(worker, start_worker(isolation));
  auto reply = worker.call("load", Json{{"engine_folder", folder.string()}, {"options", to_json(options)}});
  if (!reply) return fail(about_engine(reply.error(), "load", options.target));
  return std::make_unique<RemoteSession>(std::move(worker), *reply);
}

}  // namespace portwright
