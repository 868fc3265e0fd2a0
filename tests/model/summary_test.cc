// What `inspect` says, and where nodes come from. Multiply-adds are from the formulas of the operators.
#include "builder.h"
#include "model/origin.h"

namespace portwright::test {
namespace {

using SummaryTest = ModelTest;
using Strings = std::vector<std::string>;

TEST_F(SummaryTest, TwoLayers) {
  const auto summary = load(two_layers().model).summary();
  EXPECT_EQ(summary.nodes, 4U);
  EXPECT_EQ(summary.operators, (std::map<std::string, std::size_t>{{"Add", 1}, {"MatMul", 2}, {"Relu", 1}}));
  EXPECT_EQ(summary.parameters, 32U * 24 + 24 + 24 * 16);
  EXPECT_EQ(summary.weight_bytes, 4U * (32 * 24 + 24 + 24 * 16));
  EXPECT_EQ(summary.macs, 32U * 24 + 24 * 16) << "at batch 1";
  EXPECT_EQ(summary.dynamic_axes, Strings{"x.0=batch"});
  EXPECT_TRUE(summary.oddities.empty());
  EXPECT_EQ(summary.producer, "builder");
  EXPECT_EQ(summary.ir_version, 9);
  ASSERT_EQ(summary.opsets.size(), 1U);
  EXPECT_EQ(summary.opsets[0].version, 18);
  ASSERT_EQ(summary.inputs.size(), 1U);
  EXPECT_EQ(summary.inputs[0].type_text, "float32[batch, 32]");
  EXPECT_EQ(summary.inputs[0].dtype, Dtype::f32);
  EXPECT_EQ(summary.inputs[0].shape[0].symbol, "batch");
  EXPECT_EQ(summary.inputs[0].shape[1].value, 32);
}

std::optional<std::uint64_t> macs_of(Builder& builder, const std::filesystem::path& file) {
  write_bytes(file, builder.model.SerializeAsString());
  return Model::load(file)->summary().macs;
}

TEST_F(SummaryTest, MultiplyAdds) {
  Builder conv;  // 6x6 outputs, 8 channels, each 3x3x(16/2)
  conv.input("x", {"n", 16, 8, 8}).output("y", {"n", 8, 6, 6}).weights("w", {8, 8, 3, 3});
  set_attribute(conv.node("Conv", {"x", "w"}, {"y"}), "group", 2);
  EXPECT_EQ(macs_of(conv, path("a.onnx")), 6U * 6 * 8 * 3 * 3 * 8);

  Builder transposed;  // each of 16x8x8 inputs meets 4x2x2 weights
  transposed.input("x", {1, 16, 8, 8}).output("y", {1, 4, 9, 9}).weights("w", {16, 4, 2, 2});
  transposed.node("ConvTranspose", {"x", "w"}, {"y"});
  EXPECT_EQ(macs_of(transposed, path("a.onnx")), 16U * 8 * 8 * 4 * 2 * 2);

  Builder gemm;
  gemm.input("x", {7, 5}).output("y", {5, 3}).weights("w", {3, 7});
  auto& node = gemm.node("Gemm", {"x", "w"}, {"y"});
  set_attribute(node, "transA", 1);
  set_attribute(node, "transB", 1);
  EXPECT_EQ(macs_of(gemm, path("a.onnx")), 5U * 7 * 3);

  Builder lstm;  // 4 gates of 6, input 5, sequence 9, batch 2
  lstm.input("x", {9, 2, 5}).output("y", {9, 1, 2, 6}).weights("w", {1, 24, 5}).weights("r", {1, 24, 6});
  set_attribute(lstm.node("LSTM", {"x", "w", "r"}, {"y"}), "hidden_size", 6);
  EXPECT_EQ(macs_of(lstm, path("a.onnx")), 9U * 2 * (24 * 5 + 24 * 6));

  Builder einsum;
  einsum.input("a", {2, 3, 4}).input("b", {2, 4, 5}).output("y", {2, 3, 5});
  auto& equation = *einsum.node("Einsum", {"a", "b"}, {"y"}).add_attribute();
  equation.set_name("equation");
  equation.set_type(onnx::AttributeProto::STRING);
  equation.set_s("bij, bjk -> bik");
  EXPECT_EQ(macs_of(einsum, path("a.onnx")), 2U * 3 * 4 * 5);

  Builder attention(23, 11);  // scores 2x4x3x5x8, and the sum 2x4x3x5x8
  attention.input("q", {2, 4, 3, 8}).input("k", {2, 4, 5, 8}).input("v", {2, 4, 5, 8}).output("y", {2, 4, 3, 8});
  attention.node("Attention", {"q", "k", "v"}, {"y"});
  EXPECT_EQ(macs_of(attention, path("a.onnx")), 2U * (2 * 4 * 3 * 5 * 8));
}

TEST_F(SummaryTest, MultiplyAddsAreUnknownInLoopsAndBehindUnknownShapes) {
  Builder unknown;
  unknown.input("x", {"n", 4}).input("s", {2}, TensorProto::INT64).output("y", {}).weights("w", {4, 4});
  unknown.node("Reshape", {"x", "s"}, {"r"});
  unknown.node("MatMul", {"r", "w"}, {"y"});
  unknown.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
  EXPECT_EQ(macs_of(unknown, path("a.onnx")), std::nullopt);

  Builder branch;
  branch.input("x", {2, 4}).input("c", {}, TensorProto::BOOL).output("y", {2, 4}).weights("w", {4, 4});
  auto& choice = branch.node("If", {"c"}, {"y"});
  for (const char* name : {"then_branch", "else_branch"}) {
    auto& graph = set_graph(choice, name);
    Builder::add_node(graph, "MatMul", {"x", "w"}, {"r"});
    graph.add_output()->set_name("r");
  }
  EXPECT_EQ(macs_of(branch, path("a.onnx")), std::nullopt);
  EXPECT_EQ(load(branch.model).summary().nodes, 3U) << "nodes of subgraphs count";
}

TEST_F(SummaryTest, OdditiesAreCounted) {
  auto builder = two_layers();
  builder.weights("spare", {4}).weights("spare2", {4}).integers("n", {1});
  const auto summary = load(builder.model).summary();
  EXPECT_EQ(summary.oddities, (Strings{"3 unused initializers", "1 int64 initializer"}));
}

TEST_F(SummaryTest, InputsWithoutInitializersAndTypesThatAreNoTensors) {
  auto builder = two_layers();
  builder.input("w0", {32, 24});
  builder.input("s", {}, TensorProto::STRING);
  builder.graph().add_input()->set_name("seq");
  auto& type = *builder.graph().mutable_input(3)->mutable_type();
  type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT16);
  const auto inputs = load(builder.model).inputs();
  ASSERT_EQ(inputs.size(), 3U);
  EXPECT_EQ(inputs[0].name, "x");
  EXPECT_EQ(inputs[1].type_text, "string[]");
  EXPECT_EQ(inputs[1].dtype, std::nullopt);
  EXPECT_EQ(inputs[2].type_text, "sequence(float16[...])");
  EXPECT_FALSE(inputs[2].has_shape);
}

TEST(PythonLine, TakesTheInnermostFrameOfTheUser) {
  EXPECT_EQ(python_line("File \"/x/net.py\", line 31, in forward\n    return self.f(x)\n"
                        "  File \"/v/lib/python3.11/site-packages/torch/nn/modules/linear.py\", line 134, in forward\n"
                        "    return F.linear(input)"),
            "net.py:31 in forward: return self.f(x)");
  EXPECT_EQ(python_line(
                "File \"/x/net.py\", line 31, in forward\n    return self.f(x)\n  File \"/x/block.py\", line 7, in f\n"
                "    return x.view(2, -1)"),
            "block.py:7 in f: return x.view(2, -1)");
  EXPECT_EQ(python_line("File \"/v/site-packages/torch/a.py\", line 1, in g\n    pass"), "a.py:1 in g: pass");
  EXPECT_EQ(python_line("File \"/v/site-packages/torchvision/models/r.py\", line 2, in h"), "r.py:2 in h");
  for (const char* text : {"", "\n\n", "File", "File \"x", "File \"x\", line", "hello\nworld"})
    EXPECT_EQ(python_line(text), "");
}

TEST_F(SummaryTest, NodesKnowWhereTheyComeFrom) {
  auto builder = two_layers();
  set_metadata(*builder.graph().mutable_node(2), "pkg.torch.onnx.stack_trace",
               "File \"/x/net.py\", line 5, in forward\n    relu(x)");
  builder.graph().mutable_node(0)->clear_name();
  const Model model = load(builder.model);
  const auto nodes = model.nodes();
  ASSERT_EQ(nodes.size(), 4U);
  EXPECT_EQ(nodes[0].node, "h0");
  EXPECT_EQ(nodes[2].op_type, "Relu");
  EXPECT_EQ(nodes[2].python_line, "net.py:5 in forward: relu(x)");
  EXPECT_EQ(model.producer_of("h2")->node, "relu");
  EXPECT_EQ(model.producer_of("x"), std::nullopt);
  EXPECT_EQ(model.producer_of("w0"), std::nullopt);
  EXPECT_EQ(model.producer_of(""), std::nullopt);
}

}  // namespace
}  // namespace portwright::test
