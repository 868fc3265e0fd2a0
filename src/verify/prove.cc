#include "portwright/prove.h"

#include <algorithm>

#include "base/files.h"
#include "portwright/validate.h"

namespace portwright {
namespace {

CompileOptions plain(int threads) {
  return {{"onnxruntime", "fp32", "", "cpu", "onnxruntime:fp32"}, threads, "off", {}, {}};
}

// The model where an engine finds its weights: as it is, or as a copy in `folder`.
Result<Model> with_weights_beside(const Model& model, const ScratchFolder& folder) {
  if (model.weights_beside()) return model;
  const auto file = folder.path() / "model.onnx";
  PW_CHECK(model.save(file, SaveMode::external));
  return Model::load(file);
}

class Prover {
 public:
  Prover(const ProofOptions& options, Session& original, Session& simplified)
      : options_(options), original_(original), simplified_(simplified) {}

  Result<Proof> run(const ModelInputs& inputs) {
    const auto sizes = inputs.sizes();
    for (std::size_t i = 0; i < sizes.size(); ++i)
      for (int index = 0; index < (i == 0 ? options_.cases : 1); ++index) {
        if (options_.progress)
          options_.progress("proving: size " + std::to_string(i + 1) + " of " + std::to_string(sizes.size()));
        PW_TRY(tensors, inputs.generate(sizes[i], options_.seed, static_cast<std::uint64_t>(index)));
        PW_CHECK(one(tensors));
        if (proof_.verdict != Verdict::not_run && proof_.verdict != Verdict::passed) return proof_;
      }
    return proof_;
  }

 private:
  Status one(const Tensors& inputs) {
    const auto wanted = original_.run(inputs);
    if (!wanted) {
      if (wanted.error().fault == Fault::environment) return fail(wanted.error());
      if (proof_.inputs == 0) proof_.reason = "the original cannot be run: " + wanted.error().message;
      return {};
    }
    const auto got = simplified_.run(inputs);
    if (!got) {
      if (got.error().fault == Fault::environment) return fail(got.error());
      proof_.verdict = verdict_of(got.error());
      proof_.reason = got.error().message;
      return {};
    }
    note(compare(got->outputs, wanted->outputs, options_.policy, options_.threads));
    return {};
  }

  void note(const Comparison& comparison) {
    ++proof_.inputs;
    proof_.reason.clear();
    proof_.verdict = comparison.verdict;
    for (const OutputMetrics& output : comparison.outputs) {
      proof_.max_abs = std::max(proof_.max_abs, output.max_abs);
      if (output.verdict == Verdict::passed) continue;
      proof_.reason = "output '" + output.name + "': " + output.reason;
      return;
    }
  }

  const ProofOptions& options_;
  Session& original_;
  Session& simplified_;
  Proof proof_;
};

}  // namespace

Prove proof_by_running(ProofOptions options) {
  return [options = std::move(options)](const Model& original, const Model& simplified) -> Result<Proof> {
    PW_TRY(inputs, inputs_of(original, options.inputs, options.dynamic));
    PW_TRY(folder, ScratchFolder::make("portwright-proof"));
    PW_TRY(reference, open_session(original, plain(options.threads), options.isolation));
    PW_TRY(beside, with_weights_beside(simplified, folder));
    auto session = open_session(beside, plain(options.threads), options.isolation);
    if (!session) {
      if (session.error().fault == Fault::environment) return fail(std::move(session.error()));
      return Proof{verdict_of(session.error()), 0, 0, "ONNX Runtime does not load it: " + session.error().message};
    }
    return Prover(options, *reference, **session).run(inputs);
  };
}

Result<Tensors> run_plainly(const Model& model, const Tensors& inputs, int threads, const Isolation& isolation) {
  PW_TRY(session, open_session(model, plain(threads), isolation));
  PW_TRY(answer, session->run(inputs));
  Tensors outputs;
  for (const auto& [name, tensor] : answer.outputs) outputs.push_back({name, tensor.clone()});
  return outputs;
}

Evaluate evaluation_by_onnxruntime(int threads, Isolation isolation) {
  return [threads, isolation = std::move(isolation)](const Model& piece) {
    return run_plainly(piece, {}, threads, isolation);
  };
}

}  // namespace portwright
