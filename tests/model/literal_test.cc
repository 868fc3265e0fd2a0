// Sizes of the example frozen into the graph: found, and not seen where there are none.
#include "builder.h"

namespace portwright::test {
namespace {

using LiteralTest = ModelTest;

// x [batch, 4, 8] through a Reshape to `target`, then a MatMul with [32, 5].
Builder reshaped(const std::vector<std::int64_t>& target) {
  Builder builder;
  builder.input("x", {"batch", 4, 8}).output("y", {"batch", 5}).integers("target", target).weights("w", {32, 5});
  set_metadata(builder.node("Reshape", {"x", "target"}, {"flat"}, "view"), "pkg.torch.onnx.stack_trace",
               "File \"/x/net.py\", line 31, in forward\n    return x.view(8, -1)");
  builder.node("MatMul", {"flat", "w"}, {"y"}, "fc");
  return builder;
}

TEST_F(LiteralTest, ReshapeToTheBatchOfTheExample) {
  for (const auto& target : {std::vector<std::int64_t>{8, 32}, {8, -1}}) {
    const auto findings = load(reshaped(target).model).literal_sizes({{"batch", 8}});
    ASSERT_EQ(findings.size(), 1U) << target[1];
    EXPECT_EQ(findings[0].code, "literal_size");
    EXPECT_EQ(findings[0].node, "view");
    EXPECT_NE(findings[0].message.find("'batch'"), std::string::npos);
    EXPECT_NE(findings[0].message.find("size 8"), std::string::npos);
    EXPECT_NE(findings[0].message.find("net.py:31 in forward"), std::string::npos) << findings[0].message;
    EXPECT_FALSE(findings[0].received.empty());
    EXPECT_FALSE(findings[0].hint.empty());
  }
}

TEST_F(LiteralTest, NoFalseAlarmWhereTheShapeFollows) {
  EXPECT_TRUE(load(reshaped({-1, 32}).model).literal_sizes({{"batch", 8}}).empty());
  EXPECT_TRUE(load(reshaped({0, 32}).model).literal_sizes({{"batch", 8}}).empty());
  EXPECT_TRUE(load(reshaped({0, -1}).model).literal_sizes({{"batch", 8}}).empty());
  // The batch of the example is the size of another axis by chance.
  EXPECT_TRUE(load(reshaped({-1, 32}).model).literal_sizes({{"batch", 32}}).empty());
  EXPECT_TRUE(load(reshaped({-1, 32}).model).literal_sizes({{"batch", 4}}).empty());
  EXPECT_TRUE(load(reshaped({-1, 32}).model).literal_sizes({{"batch", 1}}).empty());
}

TEST_F(LiteralTest, HeadsThatEqualTheBatchAreNoLiteral) {
  Builder builder;
  builder.input("x", {"batch", "seq", 64})
      .output("y", {"batch", "seq", 64})
      .integers("split", {0, 0, 8, 8})
      .integers("merge", {0, 0, 64});
  builder.node("Reshape", {"x", "split"}, {"heads"}, "split");
  builder.node("Reshape", {"heads", "merge"}, {"y"}, "merge");
  EXPECT_TRUE(load(builder.model).literal_sizes({{"batch", 8}, {"seq", 64}}).empty());
}

TEST_F(LiteralTest, ExpandToTheExample) {
  Builder builder;
  builder.input("x", {"batch", "seq"}).output("y", {"batch", "seq"}).integers("shape", {8, 16});
  builder.weights("mask", {1, 1});
  builder.node("Expand", {"mask", "shape"}, {"full"}, "expand");
  builder.node("Add", {"x", "full"}, {"y"}, "add");
  const auto findings = load(builder.model).literal_sizes({{"batch", 8}, {"seq", 16}});
  ASSERT_EQ(findings.size(), 2U) << "one for each symbol";
  for (const auto& finding : findings) EXPECT_EQ(finding.node, "expand");
  EXPECT_NE(findings[0].message.find("'batch'"), std::string::npos);
  EXPECT_NE(findings[1].message.find("'seq'"), std::string::npos);
}

TEST_F(LiteralTest, WeightsOfTheExamplesLengthBlameTheNodeThatFails) {
  Builder builder;
  builder.input("x", {"batch", "seq", 4}).output("y", {"batch", "seq", 4}).weights("positions", {1, 16, 4});
  builder.node("Add", {"x", "positions"}, {"y"}, "embed");
  const auto findings = load(builder.model).literal_sizes({{"batch", 2}, {"seq", 16}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].node, "embed");
}

TEST_F(LiteralTest, BatchOfOne) {
  const auto findings = load(reshaped({1, 32}).model).literal_sizes({{"batch", 1}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].node, "view");
}

TEST_F(LiteralTest, DeclaredOutputThatStaysAtTheExample) {
  Builder builder;  // nothing contradicts it, only the declaration
  builder.input("x", {"batch", 4}).output("y", {"batch", 4}).integers("shape", {8, 4}).weights("one", {1});
  builder.node("Expand", {"one", "shape"}, {"e"}, "expand");
  builder.node("Relu", {"e"}, {"y"}, "relu");
  const auto findings = load(builder.model).literal_sizes({{"batch", 8}});
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].node, "expand");
}

// A U-Net wants even sizes: it fails at the example's plus one, and not because anything is frozen.
TEST_F(LiteralTest, SizesThatMustBeEvenAreNoLiterals) {
  Builder builder;
  builder.input("x", {1, 2, "h", 8}).output("y", {1, 4, "h", 8}).weights("w", {2, 2, 2, 2}).weights("u", {2, 2, 2, 2});
  set_attribute(builder.node("Conv", {"x", "w"}, {"down"}, "down"), "strides", std::vector<std::int64_t>{2, 2});
  set_attribute(builder.node("ConvTranspose", {"down", "u"}, {"up"}, "up"), "strides", std::vector<std::int64_t>{2, 2});
  set_attribute(builder.node("Concat", {"x", "up"}, {"y"}, "skip"), "axis", 1);
  EXPECT_TRUE(load(builder.model).literal_sizes({{"h", 16}}).empty());
}

TEST_F(LiteralTest, UnknownSymbolsAndBadSizesAreIgnored) {
  const Model model = load(reshaped({8, 32}).model);
  EXPECT_TRUE(model.literal_sizes({}).empty());
  EXPECT_TRUE(model.literal_sizes({{"nothing", 8}}).empty());
  EXPECT_TRUE(model.literal_sizes({{"batch", 0}}).empty());
  EXPECT_TRUE(model.literal_sizes({{"batch", -8}}).empty());
}

}  // namespace
}  // namespace portwright::test
