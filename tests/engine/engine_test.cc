#include <gtest/gtest.h>

#include "base/json.h"
#include "engine/models.h"
#include "engine/probe.h"
#include "portwright/engine.h"

namespace portwright {
namespace {

using test::GraphMaker;
using test::scale_and_shift;

struct Way {
  std::string target;
  bool in_process;
};

class EveryEngine : public testing::TestWithParam<Way> {
 protected:
  ScratchFolder folder_ = ScratchFolder::make("portwright-test-").value();
  CompileOptions options_{parse_target(GetParam().target).value(), 1, "all", {}, {}};
  Isolation isolation_{GetParam().in_process, std::chrono::milliseconds(120'000), 0, {}, nullptr};
};

Tensor ramp(std::int64_t rows, std::int64_t columns) {
  Tensor x = Tensor::zeros(Dtype::f32, {rows, columns});
  auto values = x.as_mutable<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 100;
  return x;
}

void expect_scaled(const Tensor& x, const Tensor& y) {
  ASSERT_EQ(y.dtype(), Dtype::f32);
  ASSERT_EQ(y.shape(), x.shape());
  const auto columns = static_cast<std::size_t>(x.shape()[1]);
  for (std::size_t i = 0; i < x.count(); ++i) {
    const float scale = static_cast<float>(i % columns % 7) - 3;
    ASSERT_NEAR(y.as<float>()[i], x.as<float>()[i] * scale + 1, 1e-4) << i;
  }
}

TEST_P(EveryEngine, ComputesAtEverySizeOfADynamicAxis) {
  const auto model = Model::load(scale_and_shift().save(folder_.path()));
  ASSERT_TRUE(model) << model.error().message;
  auto session = open_session(*model, options_, isolation_);
  ASSERT_TRUE(session) << session.error().message;
  for (const std::int64_t batch : {3, 1, 8, 3, 3, 16, 16, 2, 1, 32}) {
    const Tensor x = ramp(batch, 512);
    const auto result = (*session)->run({{"x", x}});
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_EQ(result->outputs.size(), 1U);
    EXPECT_EQ(result->outputs[0].name, "y");
    expect_scaled(x, result->outputs[0].tensor);
  }
}

TEST_P(EveryEngine, StagedInputsGiveTheSameAnswerEveryTime) {
  auto session = open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_);
  ASSERT_TRUE(session);
  const Tensor x = ramp(4, 512);
  const auto staged = (*session)->stage({{"x", x}});
  ASSERT_TRUE(staged);
  for (int i = 0; i < 3; ++i) {
    const auto result = (*session)->run(*staged);
    ASSERT_TRUE(result);
    expect_scaled(x, result->outputs[0].tensor);
  }
  const auto times = (*session)->time(*staged, 5);
  ASSERT_TRUE(times);
  EXPECT_EQ(times->size(), 5U);
}

TEST_P(EveryEngine, ReadsBackWhatItDoes) {
  auto session = open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_);
  ASSERT_TRUE(session);
  const EngineInfo& info = (*session)->info();
  EXPECT_EQ(info.precision_effective, "fp32");
  EXPECT_EQ(info.device, "cpu");
  EXPECT_EQ(info.threads, 1);
  EXPECT_FALSE(info.version.empty());
}

TEST_P(EveryEngine, WrongInputsAreTheUsersToMend) {
  auto session = open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_);
  ASSERT_TRUE(session);
  const Tensors wrong[] = {
      {},
      {{"z", ramp(1, 512)}},
      {{"x", ramp(1, 512)}, {"extra", ramp(1, 1)}},
      {{"x", ramp(1, 511)}},
      {{"x", ramp(1, 512).reshaped({512})}},
      {{"x", converted(ramp(1, 512), Dtype::f64)}},
  };
  for (const Tensors& inputs : wrong) {
    const auto result = (*session)->run(inputs);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, "bad_input") << result.error().message;
    EXPECT_EQ(result.error().fault, Fault::usage);
    EXPECT_FALSE(result.error().where.empty());
  }
  EXPECT_TRUE((*session)->run({{"x", ramp(2, 512)}})) << "a refused input must not break the session";
}

TEST_P(EveryEngine, AnUnknownOperatorIsUnsupportedAndNamed) {
  GraphMaker maker;
  maker.input("x", {"4"}).output("y", {"4"});
  maker.node("NoSuchOperator", {"x"}, {"y"}, "com.example");
  auto* import = maker.model.add_opset_import();
  import->set_domain("com.example");
  import->set_version(1);
  const auto model = Model::load(maker.save(folder_.path()));
  ASSERT_TRUE(model);
  const auto session = open_session(*model, options_, isolation_);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().fault, Fault::gate);
  EXPECT_NE(session.error().message.find("NoSuchOperator"), std::string::npos) << session.error().message;
}

TEST_P(EveryEngine, SavedEnginesLoadAndComputeTheSame) {
  options_.save_to = folder_.path() / "engine";
  ASSERT_TRUE(open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_));
  auto loaded = open_saved(options_.save_to, options_, isolation_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const Tensor x = ramp(2, 512);
  const auto result = (*loaded)->run({{"x", x}});
  ASSERT_TRUE(result) << result.error().message;
  expect_scaled(x, result->outputs[0].tensor);
}

TEST_P(EveryEngine, ASavedEngineOfAnotherVersionSaysWhatDiffers) {
  options_.save_to = folder_.path() / "engine";
  ASSERT_TRUE(open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_));
  auto record = read_json(options_.save_to / "engine.json").value();
  record["version"] = "0.0.1";
  record["cpu_features"].push_back("avx1024");
  ASSERT_TRUE(write_json(options_.save_to / "engine.json", record));
  const auto loaded = open_saved(options_.save_to, options_, isolation_);
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, "engine_mismatch");
  EXPECT_NE(loaded.error().message.find("0.0.1"), std::string::npos);
  EXPECT_NE(loaded.error().message.find("avx1024"), std::string::npos);
}

TEST_P(EveryEngine, AnUnknownDeviceIsTheEnvironmentsFault) {
  options_.target.device = "cuda:7";
  const auto session = open_session(*Model::load(scale_and_shift().save(folder_.path())), options_, isolation_);
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().fault, Fault::environment);
}

INSTANTIATE_TEST_SUITE_P(Engines, EveryEngine,
                         testing::Values(Way{"onnxruntime:fp32", false}, Way{"onnxruntime:fp32", true},
                                         Way{"openvino:fp32", false}, Way{"openvino:fp32", true}),
                         [](const auto& way) {
                           return way.param.target.substr(0, way.param.target.find(':')) +
                                  (way.param.in_process ? "_here" : "_worker");
                         });

TEST(Target, EveryFormParses) {
  const auto target = parse_target("openvino:bf16@cpu");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->engine, "openvino");
  EXPECT_EQ(target->precision, "bf16");
  EXPECT_TRUE(target->reduced());
  EXPECT_EQ(target->folder(), "openvino-bf16-cpu");
  EXPECT_EQ(parse_target("onnxruntime")->precision, "fp32");
  EXPECT_EQ(parse_target("onnxruntime@cuda:0")->device, "cuda:0");
  EXPECT_EQ(parse_target("torch:compile:bf16")->mode, "compile");
  EXPECT_EQ(parse_target("torch:compile:bf16")->precision, "bf16");
  EXPECT_EQ(parse_target("torch:bf16")->mode, "eager");
}

TEST(Target, MistakesAreUsageErrorsWithAHint) {
  for (const char* text : {"", "onnx", "openvino:fp31", "openvino:fp32:fp16", "openvino@", "torch:fast", ":fp32"}) {
    const auto target = parse_target(text);
    ASSERT_FALSE(target) << text;
    EXPECT_EQ(target.error().fault, Fault::usage) << text;
    EXPECT_FALSE(target.error().hint.empty()) << text;
  }
}

TEST(Engines, SayWhichOpsetsTheyTake) {
  for (const auto& engine : engines()) {
    if (!engine->available()) continue;
    EXPECT_GE(engine->newest_opset(), 20) << engine->name();
    EXPECT_GE(engine->newest_ir_version(), 9) << engine->name();
  }
}

TEST(Probe, MakesAModelThatTheOnnxLibraryReads) {
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(identity_model(300, 9)));
  EXPECT_EQ(model.ir_version(), 9);
  EXPECT_EQ(model.opset_import(0).version(), 300);
  EXPECT_EQ(model.graph().node(0).op_type(), "Identity");
  EXPECT_EQ(model.graph().output(0).type().tensor_type().elem_type(), onnx::TensorProto::FLOAT);
}

}  // namespace
}  // namespace portwright
