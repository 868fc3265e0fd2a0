#include "engine/torch/session.h"

#include "base/machine.h"

namespace portwright {
namespace {

class TorchSession : public Session {
 public:
  TorchSession(std::unique_ptr<Source> source, const Target& target, int threads)
      : source_(std::move(source)), target_(target) {
    const Machine machine = this_machine();
    info_.name = "torch";
    info_.version = source_->versions().value("torch", std::string());
    info_.device_asked = info_.device = target.device;
    info_.precision_asked = target.precision;
    info_.precision_effective = target.precision;  // the module is converted to it
    info_.default_precision = "fp32";
    info_.cpu_features = machine.cpu_features;
    info_.threads = threads > 0 ? threads : machine.cores;
    info_.options = {{"mode", target.mode}};
    for (const InputSpec& spec : source_->inputs().specs) {
      ValueInfo input;
      input.name = spec.name;
      input.dtype = spec.dtype;
      input.type_text = std::string(to_string(spec.dtype)) + to_string(spec.shape);
      inputs_.push_back(std::move(input));
    }
  }

  const EngineInfo& info() const override { return info_; }
  const std::vector<ValueInfo>& inputs() const override { return inputs_; }
  const std::vector<ValueInfo>& outputs() const override { return outputs_; }

  Result<RunResult> run(const Tensors& inputs) override {
    PW_TRY(reply, forward(inputs, 1, true));
    PW_TRY(outputs, source_->worker().get(reply.at("outputs")));
    if (compile_seconds == 0) compile_seconds = reply.value("compile_seconds", 0.0);  // torch compiles in the first run
    return RunResult{std::move(outputs), reply.at("seconds").at(0).get<double>()};
  }

  Result<Tensors> stage(const Tensors& inputs) override { return source_->worker().stage(inputs); }

  Result<std::vector<double>> time(const Tensors& inputs, int runs) override {
    PW_TRY(reply, forward(inputs, runs, false));
    return reply.at("seconds").get<std::vector<double>>();
  }

  std::size_t peak_memory() const override { return source_->worker().peak_memory(); }

 private:
  Result<Json> forward(const Tensors& inputs, int runs, bool with_outputs) {
    PW_TRY(described, source_->worker().put(inputs));
    return source_->call("forward", Json{{"inputs", described},
                                         {"precision", target_.precision},
                                         {"mode", target_.mode},
                                         {"threads", info_.threads},
                                         {"runs", runs},
                                         {"outputs", with_outputs}});
  }

  std::unique_ptr<Source> source_;
  Target target_;
  EngineInfo info_;
  std::vector<ValueInfo> inputs_, outputs_;
};

}  // namespace

Result<std::unique_ptr<Session>> open_torch(const SourceOptions& options, const Target& target, int threads) {
  if (options.source.ends_with(".onnx"))
    return fail({Fault::usage, "compile", "bad_target",
                 target.text + " needs the PyTorch module, and " + options.source + " is an ONNX file", target.text,
                 "give the original source, or another target", ""});
  SourceOptions own = options;
  own.threads = threads;
  PW_TRY(source, Source::open(own));
  auto session = std::make_unique<TorchSession>(std::move(source), target, threads);
  session->load_seconds = 0;
  return session;
}

}  // namespace portwright
