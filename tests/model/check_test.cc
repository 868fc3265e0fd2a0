// What `check` finds: each broken model here is one that people have shipped.
#include <algorithm>

#include "builder.h"

namespace portwright::test {
namespace {

using CheckTest = ModelTest;
using Codes = std::vector<std::string>;

const Finding& find(const std::vector<Finding>& findings, const std::string& code) {
  const auto found = std::find_if(findings.begin(), findings.end(), [&](const Finding& f) { return f.code == code; });
  if (found == findings.end()) throw std::runtime_error("no finding " + code);
  return *found;
}

TEST_F(CheckTest, SoundModelHasNoFindings) { EXPECT_TRUE(load(two_layers().model).check().empty()); }

TEST_F(CheckTest, SoundModelWithExternalDataHasNoFindings) {
  ASSERT_TRUE(load(two_layers().model).save(path("e.onnx"), SaveMode::external));
  EXPECT_TRUE(load(path("e.onnx")).check().empty());
}

TEST_F(CheckTest, MaxOfDoubleAndFloat) {
  Builder builder;
  builder.input("a", {2}, TensorProto::DOUBLE).input("b", {2}).output("y", {2}, TensorProto::DOUBLE);
  builder.node("Max", {"a", "b"}, {"y"}, "biggest");
  const auto findings = load(builder.model).check();
  const Finding& finding = find(findings, "type_mismatch");
  EXPECT_EQ(finding.severity, Severity::error);
  EXPECT_EQ(finding.node, "biggest");
  EXPECT_NE(finding.message.find("inconsistent type"), std::string::npos) << finding.message;
  EXPECT_EQ(finding.received, "a float64[2], b float32[2]");
  EXPECT_FALSE(finding.expected.empty());
  EXPECT_FALSE(finding.hint.empty());
}

TEST_F(CheckTest, MatMulOfThreeAndFour) {
  Builder builder;
  builder.input("a", {2, 3}).input("b", {4, 5}).output("y", {2, 5});
  builder.node("MatMul", {"a", "b"}, {"y"}, "product");
  const Finding finding = find(load(builder.model).check(), "shape_mismatch");
  EXPECT_EQ(finding.node, "product");
  EXPECT_EQ(finding.received, "a float32[2, 3], b float32[4, 5]");
}

TEST_F(CheckTest, FindsEveryWrongNodeAtOnce) {
  Builder builder;
  builder.input("a", {2, 3})
      .input("b", {4, 5})
      .input("d", {2}, TensorProto::DOUBLE)
      .output("y", {2, 5})
      .output("z", {2});
  builder.node("MatMul", {"a", "b"}, {"y"}, "one");
  builder.node("Max", {"d", "e"}, {"z"}, "two");
  builder.input("e", {2});
  const auto found = codes(load(builder.model).check(), Severity::error);
  EXPECT_TRUE(std::count(found.begin(), found.end(), "shape_mismatch@one")) << found.size();
  EXPECT_TRUE(std::count(found.begin(), found.end(), "type_mismatch@two")) << found.size();
}

TEST_F(CheckTest, DeclaredOutputThatContradictsTheInput) {
  Builder shape;
  shape.input("x", {2, 3}).output("y", {2, 4});
  shape.node("Relu", {"x"}, {"y"}, "r");
  Finding finding = find(load(shape.model).check(), "declared_shape_contradicted");
  EXPECT_EQ(finding.node, "r");
  EXPECT_EQ(finding.expected, "float32[2, 4]");
  EXPECT_EQ(finding.received, "float32[2, 3]");

  Builder type;
  type.input("x", {2, 3}).output("y", {2, 3}, TensorProto::INT64);
  type.node("Relu", {"x"}, {"y"}, "r");
  EXPECT_EQ(find(load(type.model).check(), "declared_type_contradicted").received, "float32[2, 3]");

  auto inner = two_layers();
  inner.value("h1", {"batch", 25});
  EXPECT_EQ(find(load(inner.model).check(), "declared_shape_contradicted").node, "bias");
}

TEST_F(CheckTest, DeclaredShapeIsReachedThroughComputedShapes) {
  Builder builder;  // y = reshape(x, [shape(x)[0], -1]) needs data propagation
  builder.input("x", {2, 3, 4}).output("y", {2, 13}).integers("zero", {0}).integers("rest", {-1});
  builder.node("Shape", {"x"}, {"s"});
  auto& gather = builder.node("Gather", {"s", "zero"}, {"n"});
  set_attribute(gather, "axis", 0);
  auto& concat = builder.node("Concat", {"n", "rest"}, {"target"});
  set_attribute(concat, "axis", 0);
  builder.node("Reshape", {"x", "target"}, {"y"}, "flatten");
  const Finding finding = find(load(builder.model).check(), "declared_shape_contradicted");
  EXPECT_EQ(finding.node, "flatten");
  EXPECT_EQ(finding.received, "float32[2, 12]");
}

TEST_F(CheckTest, ConvolutionWithOtherChannels) {
  Builder builder;
  builder.input("x", {1, 3, 8, 8}).output("y", {1, 4, 6, 6}).weights("w", {4, 4, 3, 3});
  builder.node("Conv", {"x", "w"}, {"y"}, "conv");
  const Finding finding = find(load(builder.model).check(), "shape_mismatch");
  EXPECT_EQ(finding.node, "conv");
  EXPECT_EQ(finding.expected, "4 channels");
  EXPECT_EQ(finding.received, "3 channels");
}

TEST_F(CheckTest, WhatOnnxsCheckerRejects) {
  auto cut = two_layers();
  cut.graph().mutable_node()->DeleteSubrange(0, 1);
  EXPECT_EQ(find(load(cut.model).check(), "invalid_model").node, "bias");
  EXPECT_EQ(find(load(cut.model).check(), "invalid_model").received, "h0");

  auto unknown = two_layers();
  unknown.graph().mutable_node(2)->set_op_type("Relux");
  EXPECT_EQ(find(load(unknown.model).check(), "invalid_model").node, "relu");

  auto attribute = two_layers();
  set_attribute(*attribute.graph().mutable_node(2), "alpha", 1);
  EXPECT_EQ(find(load(attribute.model).check(), "invalid_model").node, "relu");

  auto twice = two_layers();
  twice.graph().mutable_node(1)->set_output(0, "h0");
  EXPECT_NE(find(load(twice.model).check(), "invalid_model").message.find("single static assignment"),
            std::string::npos);

  auto future = two_layers();
  future.model.mutable_opset_import(0)->set_version(999);
  EXPECT_EQ(find(load(future.model).check(), "unknown_opset").received, "999");
}

TEST_F(CheckTest, ErrorsInSubgraphsNameTheInnerNode) {
  Builder builder;
  builder.input("c", {}, TensorProto::BOOL).input("a", {2, 3}).input("b", {4, 5}).output("y", {2, 5});
  auto& choice = builder.node("If", {"c"}, {"y"}, "choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& graph = set_graph(choice, branch);
    Builder::add_node(graph, "MatMul", {"a", "b"}, {"r"}, std::string("inner_") + branch);
    Builder::set_type(*graph.add_output(), "r", TensorProto::FLOAT, {2, 5});
  }
  const auto found = codes(load(builder.model).check(), Severity::error);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(found.front(), "shape_mismatch@inner_then_branch");
}

TEST_F(CheckTest, OperatorsThatAreFunctionsAreChecked) {
  Builder sound(13);
  sound.input("x", {2, 3, 4, 5}).output("y", {2, 3, 4, 5});
  sound.node("MeanVarianceNormalization", {"x"}, {"y"});
  EXPECT_TRUE(load(sound.model).check().empty()) << "ONNX's own full check rejects this valid model";
}

TEST_F(CheckTest, MessagesCarryThePythonLine) {
  Builder builder;
  builder.input("a", {2, 3}).input("b", {4, 5}).output("y", {2, 5});
  set_metadata(builder.node("MatMul", {"a", "b"}, {"y"}), "pkg.torch.onnx.stack_trace",
               "File \"/home/me/net.py\", line 31, in forward\n    return a @ b");
  const Finding finding = find(load(builder.model).check(), "shape_mismatch");
  EXPECT_EQ(finding.node, "y") << "a node without a name is called by its output";
  EXPECT_NE(finding.message.find("[net.py:31 in forward: return a @ b]"), std::string::npos) << finding.message;
}

// The ONNX library's shape inference does not come to an end on such equations.
TEST_F(CheckTest, EinsumEquations) {
  const auto findings_of = [&](const std::string& equation, bool in_function) {
    Builder builder;
    builder.input("x", {2, 3}).output("y", {2});
    auto& local = *builder.model.add_opset_import();
    local.set_domain("local");
    local.set_version(1);
    auto& function = *builder.model.add_functions();
    function.set_domain("local");
    function.set_name("f");
    function.add_input("a");
    function.add_output("b");
    function.add_attribute("rule");
    function.add_opset_import()->set_version(18);
    auto& handed = *Builder::add_node(builder.graph(), "Einsum", {"a"}, {"b"}, "inner").add_attribute();
    handed.set_name("equation");
    handed.set_type(onnx::AttributeProto::STRING);
    handed.set_ref_attr_name("rule");
    function.add_node()->Swap(builder.graph().mutable_node(0));
    builder.graph().clear_node();
    auto& node = builder.node(in_function ? "f" : "Einsum", {"x"}, {"y"}, "sum");
    if (in_function) node.set_domain("local");
    auto& attribute = *node.add_attribute();
    attribute.set_name(in_function ? "rule" : "equation");
    attribute.set_type(onnx::AttributeProto::STRING);
    attribute.set_s(equation);
    return codes(load(builder.model).check(), Severity::error);
  };
  for (const bool in_function : {false, true}) {
    for (const char* sound : {"ij->i", " i j -> i"}) EXPECT_EQ(findings_of(sound, in_function), Codes()) << sound;
    for (const char* endless : {"i1j->i", "i.j->i", "...i...->i", "ij;->i"})
      EXPECT_FALSE(findings_of(endless, in_function).empty()) << endless;
  }
}

TEST_F(CheckTest, AxesBeyondAnyRank) {
  Builder builder;
  builder.input("x", {2, 3}).output("y", {2, 3}).output("m", {2, 1}).weights("w", {3});
  set_attribute(builder.node("LayerNormalization", {"x", "w", ""}, {"y", "m"}, "norm"), "axis",
                std::numeric_limits<std::int64_t>::max());
  EXPECT_FALSE(codes(load(builder.model).check(), Severity::error).empty());
}

// An operator of nobody's knowledge in front of one whose inference takes a type for granted.
TEST_F(CheckTest, UnknownTypes) {
  Builder builder;
  builder.input("x", {2, 2}).output("y", {2, 2});
  builder.node("Strange", {"x"}, {"s"}, "strange").set_domain("com.example");
  auto& domain = *builder.model.add_opset_import();
  domain.set_domain("com.example");
  domain.set_version(1);
  set_attribute(builder.node("EyeLike", {"s"}, {"y"}, "eye"), "dtype", TensorProto::FLOAT);
  EXPECT_EQ(codes(load(builder.model).check(), Severity::error), Codes());
}

TEST_F(CheckTest, Lints) {
  auto builder = two_layers();
  builder.weights("spare", {4});
  builder.node("Dropout", {"x", "ratio", "mode"}, {"d"}, "drop");
  builder.weights("ratio", {});
  auto& mode = *builder.graph().add_initializer();
  mode.set_name("mode");
  mode.set_data_type(TensorProto::BOOL);
  mode.set_raw_data("\1", 1);
  set_attribute(builder.node("BatchNormalization", {"d", "v", "v", "v", "v"}, {"n", "mean", "var"}, "norm"),
                "training_mode", 1);
  builder.weights("v", {32});
  set_attribute(builder.node("Cast", {"n"}, {"n64"}, "up"), "to", TensorProto::DOUBLE);
  set_attribute(builder.node("Cast", {"n64"}, {"n32"}, "down"), "to", TensorProto::FLOAT);
  set_attribute(builder.node("Cast", {"n32"}, {"same"}, "same"), "to", TensorProto::FLOAT);
  builder.node("Transpose", {"same"}, {"t"}, "t1");
  builder.node("Transpose", {"t"}, {"tt"}, "t2");
  builder.node("RandomNormalLike", {"tt"}, {"noise"}, "relu");  // a name that is taken
  builder.output("noise", {"batch", 32});
  builder.integers("numbers", {1, 2});
  const auto findings = load(builder.model).check();
  EXPECT_EQ(codes(findings, Severity::error), Codes());
  const auto warnings = codes(findings, Severity::warning), notes = codes(findings, Severity::note);
  const auto has = [](const Codes& list, const std::string& code) {
    return std::count(list.begin(), list.end(), code) == 1;
  };
  for (const char* code : {"unused_initializer@spare", "unused_initializer@numbers", "training_mode@drop",
                           "training_mode@norm", "float64@up", "random_operator@relu", "duplicate_node_name@relu"})
    EXPECT_TRUE(has(warnings, code)) << code;
  for (const char* code : {"cast_pair@down", "redundant_cast@same", "transpose_pair@t2", "int64_initializer@numbers"})
    EXPECT_TRUE(has(notes, code)) << code;
}

TEST_F(CheckTest, ManyFindingsOfOneKindAreCollapsed) {
  auto builder = two_layers();
  for (int i = 0; i < 50; ++i) builder.weights("spare" + std::to_string(i), {2});
  const auto findings = load(builder.model).check();
  EXPECT_EQ(findings.size(), 3U);
  EXPECT_NE(findings.back().message.find("47 more"), std::string::npos) << findings.back().message;
}

TEST_F(CheckTest, OutputThatIsDeclaredDynamicButIsNot) {
  Builder builder;
  builder.input("x", {"batch", 4}).output("y", {"batch", 4}).integers("shape", {8, 4});
  builder.node("Reshape", {"x", "shape"}, {"y"}, "frozen");
  const Finding finding = find(load(builder.model).check(), "literal_dimension");
  EXPECT_EQ(finding.severity, Severity::warning);
  EXPECT_EQ(finding.node, "frozen");
  EXPECT_EQ(finding.received, "8");
}

}  // namespace
}  // namespace portwright::test
