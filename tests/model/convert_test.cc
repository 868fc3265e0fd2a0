// Other opsets, rounded weights, laid-open outputs: proven with ONNX Runtime.
#include <set>

#include "base/python_peer.h"
#include "builder.h"

namespace portwright::test {
namespace {

using ConvertTest = ModelTest;

TEST_F(ConvertTest, OpsetUpKeepsWeightsAndMetadata) {
  auto builder = two_layers();
  builder.model.mutable_opset_import(0)->set_version(13);
  set_metadata(*builder.graph().mutable_node(2), "pkg.torch.onnx.stack_trace",
               "File \"/x/net.py\", line 5, in forward\n    relu(x)");
  const Model model = load(builder.model);
  const auto converted = model.with_opset(21);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(converted->opset(), 21);
  EXPECT_GE(converted->ir_version(), 10);
  EXPECT_EQ(converted->nodes()[2].python_line, "net.py:5 in forward: relu(x)");
  EXPECT_EQ(converted->summary().weight_bytes, model.summary().weight_bytes);
  ASSERT_TRUE(converted->save(path("21.onnx"), SaveMode::inlined));
  run_python("model/model_peer.py", {"same", "0", path("m.onnx"), path("21.onnx")});
}

TEST_F(ConvertTest, OpsetDownDropsAttributesThatTheOlderOperatorLacks) {
  Builder builder(18, 10);
  builder.input("x", {"batch", 8, 4}).output("y", {"batch", 4}).integers("axes", {1});
  auto& mean = builder.node("ReduceMean", {"x", "axes"}, {"y"}, "mean");
  set_attribute(mean, "keepdims", 0);
  set_attribute(mean, "noop_with_empty_axes", 0);
  const auto converted = load(builder.model).with_opset(17);
  ASSERT_TRUE(converted) << converted.error().message;
  EXPECT_EQ(converted->ir_version(), 8);
  ASSERT_TRUE(converted->save(path("17.onnx"), SaveMode::inlined));
  run_python("model/model_peer.py", {"same", "0", path("m.onnx"), path("17.onnx")});
}

TEST_F(ConvertTest, OpsetThatIsNotPossibleIsRefused) {
  const Model model = load(two_layers().model);
  for (const std::int64_t version : {-1, 0, 999, 100000}) {
    const auto converted = model.with_opset(version);
    ASSERT_FALSE(converted) << version;
    EXPECT_EQ(converted.error().code, "conversion_failed");
    EXPECT_EQ(converted.error().fault, Fault::gate);
    EXPECT_EQ(converted.error().message.find('\n'), std::string::npos);
  }
  EXPECT_EQ(model.with_opset(18)->digest().value(), model.digest().value());
  auto broken = two_layers();
  broken.graph().mutable_node(0)->set_input(0, "nothing");
  EXPECT_EQ(load(broken.model).with_opset(17).error().code, "conversion_failed");
}

TEST_F(ConvertTest, RoundedWeightsCarryTheLoss) {
  const Model model = load(two_layers().model);
  for (const auto precision : {Dtype::f16, Dtype::bf16}) {
    const auto file = path(std::string(to_string(precision)) + ".onnx");
    const auto rounded = model.with_weights_rounded(precision, file);
    ASSERT_TRUE(rounded) << rounded.error().message;
    EXPECT_TRUE(codes(rounded->check(), Severity::error).empty());
    EXPECT_EQ(rounded->summary().operators.at("Cast"), 2U);
    EXPECT_EQ(rounded->outputs()[0].type_text, model.outputs()[0].type_text);
    EXPECT_EQ(rounded->inputs()[0].type_text, model.inputs()[0].type_text);

    // Every stored value is the float rounded to nearest even.
    const auto proto = structure(*rounded);
    const auto& tensor = proto.graph().initializer(0);
    EXPECT_EQ(tensor.data_type(), precision == Dtype::f16 ? TensorProto::FLOAT16 : TensorProto::BFLOAT16);
    const std::string data = read_bytes(file.string() + ".data");
    const std::string raw = two_layers().model.graph().initializer(0).raw_data();
    for (std::size_t i = 0; i < 768; ++i) {
      float value = 0;
      std::uint16_t bits = 0;
      std::memcpy(&value, raw.data() + 4 * i, 4);
      std::memcpy(&bits, data.data() + 2 * i, 2);
      ASSERT_EQ(bits, precision == Dtype::f16 ? float_to_half(value) : float_to_bfloat16(value)) << i;
    }
  }
  // Weights up to 0.1: half an ulp is 2^-15 and 2^-12 of that; sums of 24 to 32 terms stay below these bounds.
  run_python("model/model_peer.py", {"same", "2e-3", path("m.onnx"), path("float16.onnx")});
  run_python("model/model_peer.py", {"same", "2e-2", path("m.onnx"), path("bfloat16.onnx")});
}

TEST_F(ConvertTest, RoundingRefusesWhatItCannotDo) {
  auto builder = two_layers();
  builder.model.mutable_opset_import(0)->set_version(12);
  const Model model = load(builder.model);
  EXPECT_EQ(model.with_weights_rounded(Dtype::bf16, path("r.onnx")).error().code, "opset_too_old");
  EXPECT_EQ(model.with_weights_rounded(Dtype::i8, path("r.onnx")).error().code, "bad_precision");
  EXPECT_EQ(model.with_weights_rounded(Dtype::f16, path("no/r.onnx")).error().code, "cannot_write");
  EXPECT_FALSE(std::filesystem::exists(path("r.onnx")));
}

TEST_F(ConvertTest, AllOutputsAreEveryFloatBetweenNodes) {
  auto builder = two_layers();
  builder.node("Shape", {"h2"}, {"integers"});
  builder.output("integers", {2}, TensorProto::INT64);
  const Model marked = load(builder.model).with_all_outputs();
  std::set<std::string> names;
  for (const auto& output : marked.outputs()) EXPECT_TRUE(names.insert(output.name).second) << output.name;
  EXPECT_EQ(names, (std::set<std::string>{"y", "integers", "h0", "h1", "h2"}));
  EXPECT_EQ(marked.outputs()[0].name, "y") << "the model's own outputs stay in front";
  EXPECT_TRUE(codes(marked.check(), Severity::error).empty());
  ASSERT_TRUE(marked.save(path("all.onnx"), SaveMode::external));
  run_python("model/model_peer.py", {"outputs", path("m.onnx"), path("all.onnx")});
}

}  // namespace
}  // namespace portwright::test
