// One port from its first step to its report. Members are implemented by theme:
//   port.cc (order, folder), run_source.cc (build, export), run_model.cc (check, validate), run_simplify.cc,
//   run_target.cc (compile, validate each target), run_measure.cc (evaluate, measure), record.cc (port.json,
//   issues.jsonl, reports).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "engine/torch/source.h"
#include "port/steps.h"
#include "portwright/port.h"
#include "portwright/validate.h"

namespace portwright {

inline constexpr std::uint64_t kOneFile = 2'000'000'000;  // bytes of weights from which they lie beside the model

// How a target is compiled: what it takes to open it again.
struct Configuration {
  std::string model = "model.onnx";  // file in the run folder
  std::string optimization = "all";
  std::vector<std::string> disabled;
};
Json to_json(const Configuration& configuration);
Configuration configuration_from(const Json& value);

// One target on its way through the steps.
struct Lane {
  Target target;
  Configuration configuration;
  std::unique_ptr<Session> session;
  std::string key;  // of its last step
  Verdict verdict = Verdict::not_run;
  bool hidden = false;  // an fp32 build that only serves to judge a reduced precision
};

class Run {
 public:
  Run(PortOptions options, FolderLock lock);
  Result<PortResult> execute();

 private:
  // Steps, in order. Each gives an error only where the run cannot go on to a record.
  Status build();
  Status export_model();
  Status check();
  Status validate_model();
  Status simplify_model();
  Status port_target(Lane& lane);
  Status evaluate();
  Status measure();
  Status write_record(const Json& record);
  Result<PortResult> finish();

  // build and export
  Result<StepResult> build_body();
  Result<StepResult> build_from_onnx(StepResult step);
  Result<StepResult> export_body();
  Result<StepResult> copy_onnx();
  Result<ExportResult> export_with(const std::string& exporter, const std::string& file);
  Status restore_inputs(const StepRecord& record);

  // validation of the exported model
  Result<StepResult> validate_model_body();
  Result<Validation> validate_plainly(const std::string& file);
  bool try_following_sizes(StepResult& step, Validation& validation, std::string& file);
  bool try_other_exporter(StepResult& step, Validation& validation, std::string& file);
  void explain_model(StepResult& step, const Validation& validation, const std::string& file);
  void locate_in_export(Issue& issue, const Model& model);

  Result<StepResult> simplify_body();

  // targets
  Result<StepResult> compile_body(Lane& lane);
  Result<StepResult> validate_body(Lane& lane);
  Status compile_first(Lane& lane, StepResult& step);
  Status lower_opset(Lane& lane, StepResult& step);
  bool try_as_exported(Lane& lane, StepResult& step, const std::string& symptom, const std::function<bool()>& works);
  Status put_weights_in_graph(Lane& lane, StepResult& step);
  Status climb_down(Lane& lane, StepResult& step, Validation& validation);
  void explain_target(Lane& lane, StepResult& step, const Validation& validation);
  void look_for_overflow(Lane& lane, StepResult& step);
  Result<std::unique_ptr<Session>> open(const Lane& lane, bool save);
  Status reopen(Lane& lane);
  Validation validate_session(Lane& lane);
  Status write_evidence(Lane& lane, StepResult& step, const Validation& validation);

  // measuring
  Result<StepResult> evaluate_body();
  Result<StepResult> measure_body();

  bool is_onnx_source() const { return options_.source.ends_with(".onnx"); }
  bool needs_torch() const { return !is_onnx_source(); }
  Result<Source*> source();
  SourceOptions source_options(const std::string& log) const;
  Isolation isolation(const std::string& log) const;
  CompileOptions compile_options(const Lane& lane) const;
  Result<Tensors> ask_reference(const Case& question, const std::string& precision);
  ValidateOptions validate_options(const Target& target, const std::string& step) const;
  std::filesystem::path engine_folder(const Lane& lane) const;
  void note(const std::string& step, const std::string& what) const;
  // A model of the run folder, with the file of its weights where it has one.
  void made_model(StepResult& step, const std::string& file) const;
  void remove_model(const std::string& file) const;
  Json record() const;
  const StepRecord* find_step(const std::string& name) const;

  PortOptions options_;
  FolderLock lock_;
  std::filesystem::path folder_;
  std::shared_ptr<double> waited_;
  Steps steps_;
  std::unique_ptr<Source> source_;
  ModelInputs inputs_;
  std::string exported_file_ = "model.onnx";  // the exported model that is used from here on
  std::string model_file_ = "model.onnx";     // what engines are given: that one, or simplified
  std::string model_key_;                     // key of the step that proved it
  bool model_ready_ = false;
  bool model_right_ = false;
  CaseMaker cases_;
  Reference reference_;
  std::vector<Lane> lanes_;
  double started_ = 0;
};

}  // namespace portwright
