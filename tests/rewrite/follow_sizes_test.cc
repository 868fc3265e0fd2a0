// Frozen sizes: what the standard's 0, -1 and 1 can say is said, and nothing else is touched.
#include "portwright/follow_sizes.h"

#include <gtest/gtest.h>

#include <cstring>

#include "model/builder.h"

namespace portwright::test {
namespace {

using Numbers = std::vector<std::int64_t>;

class FollowSizesTest : public ModelTest {
 protected:
  // The numbers of a constant of the result.
  Numbers constant(const Model& model, const std::string& node) {
    const onnx::ModelProto proto = structure(model);
    std::string wanted;
    for (const auto& one : proto.graph().node())
      if (one.name() == node) wanted = one.input(1);
    for (const auto& tensor : proto.graph().initializer()) {
      if (tensor.name() != wanted) continue;
      Numbers out(tensor.raw_data().size() / sizeof(std::int64_t));
      std::memcpy(out.data(), tensor.raw_data().data(), tensor.raw_data().size());
      return out;
    }
    return {};
  }

  Builder reshaped(const std::vector<Dim>& from, const Numbers& target, const std::vector<Dim>& declared) {
    Builder builder;
    builder.input("x", from).output("y", declared).integers("shape", target);
    builder.node("Reshape", {"x", "shape"}, {"y"}, "view");
    return builder;
  }
};

TEST_F(FollowSizesTest, ZeroWhereTheInputHasTheSymbolThere) {
  const auto done = follow_sizes(load(reshaped({"batch", 6, 32}, {4, -1, 4, 8}, {4, 6, 4, 8}).model), {{"batch", 4}});
  ASSERT_TRUE(done);
  EXPECT_EQ(constant(done->model, "view"), (Numbers{0, -1, 4, 8}));
  EXPECT_EQ(done->changes, std::vector<std::string>{"Reshape 'view' to [0, -1, 4, 8] instead of [4, -1, 4, 8]"});
  // The output was declared as the exporter froze it.
  const auto shape = structure(done->model).graph().output(0).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "batch");
  EXPECT_TRUE(done->model.literal_sizes({{"batch", 4}}).empty());
}

TEST_F(FollowSizesTest, MinusOneWhereTheSizeLiesElsewhere) {
  const auto moved = follow_sizes(load(reshaped({32, "batch"}, {4, 32}, {"batch", 32}).model), {{"batch", 4}});
  ASSERT_TRUE(moved);
  EXPECT_EQ(constant(moved->model, "view"), (Numbers{-1, 32}));
  const auto flattened = follow_sizes(load(reshaped({"batch", 6, 7}, {24, 7}, {24, 7}).model), {{"batch", 4}});
  ASSERT_TRUE(flattened);
  EXPECT_EQ(constant(flattened->model, "view"), (Numbers{-1, 7}));
}

TEST_F(FollowSizesTest, OneFrozenNumberBehindAnother) {
  Builder builder = reshaped({"batch", 6}, {4, 6, 1}, {4, 6});
  builder.graph().mutable_node(0)->set_output(0, "a");
  builder.integers("back", {4, 6});
  builder.node("Reshape", {"a", "back"}, {"y"}, "second");
  const auto done = follow_sizes(load(builder.model), {{"batch", 4}});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->changes.size(), 2U);
  EXPECT_TRUE(done->model.literal_sizes({{"batch", 4}}).empty());
}

TEST_F(FollowSizesTest, ExpandKeepsWhatIsThere) {
  Builder builder;
  builder.input("x", {"batch", 1}).output("y", {"batch", 5}).integers("shape", {4, 5});
  builder.node("Expand", {"x", "shape"}, {"y"}, "expand");
  const auto done = follow_sizes(load(builder.model), {{"batch", 4}});
  ASSERT_TRUE(done);
  EXPECT_EQ(constant(done->model, "expand"), (Numbers{1, 5}));
}

TEST_F(FollowSizesTest, WhatFollowsAlreadyIsLeftAlone) {
  EXPECT_FALSE(follow_sizes(load(reshaped({"batch", 6, 4}, {-1, 4}, {"rows", 4}).model), {{"batch", 4}}));
  EXPECT_FALSE(follow_sizes(load(two_layers().model), {{"batch", 32}}));
}

TEST_F(FollowSizesTest, WhatZeroAndMinusOneCannotSayIsLeftAlone) {
  // Two open dimensions, neither of them where the input has the symbol.
  EXPECT_FALSE(follow_sizes(load(reshaped({6, "batch", "seq"}, {4, -1, 6}, {4, "seq", 6}).model), {{"batch", 4}}));
}

}  // namespace
}  // namespace portwright::test
