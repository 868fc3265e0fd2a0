// Saving in three ways, digests, and what other programs read back.
#include "base/python_peer.h"
#include "builder.h"

namespace portwright::test {
namespace {

namespace fs = std::filesystem;
using SaveTest = ModelTest;

TEST_F(SaveTest, InlinedIsTheOriginalToTheByte) {
  const auto file = write(two_layers().model);
  ASSERT_TRUE(load(file).save(path("out.onnx"), SaveMode::inlined));
  EXPECT_EQ(read_bytes(path("out.onnx")), read_bytes(file));
}

TEST_F(SaveTest, ExternalAndKeptHoldTheSameWeights) {
  const auto file = write(two_layers().model);
  const Model model = load(file);
  ASSERT_TRUE(model.save(path("external.onnx"), SaveMode::external));
  ASSERT_TRUE(model.save(path("kept.onnx"), SaveMode::keep));
  EXPECT_TRUE(fs::exists(path("external.onnx.data")));
  EXPECT_LT(fs::file_size(path("external.onnx")), 1500U);
  EXPECT_LT(fs::file_size(path("kept.onnx")), 1500U);
  for (const char* name : {"external.onnx", "kept.onnx"}) {
    const Model again = load(path(name));
    EXPECT_EQ(again.digest().value(), model.digest().value()) << name;
    ASSERT_TRUE(again.save(path("inlined.onnx"), SaveMode::inlined));
    EXPECT_EQ(read_bytes(path("inlined.onnx")), read_bytes(file)) << name;
  }
}

TEST_F(SaveTest, ExternalTensorsAreAlignedAndSharedOnesStayShared) {
  auto builder = two_layers();
  write_bytes(path("w.bin"), std::string(3072, '\1'));
  auto& first = *builder.graph().mutable_initializer(0);
  set_external(first, "w.bin", "0", "3072");
  auto& twin = *builder.graph().add_initializer();
  twin = first;
  twin.set_name("twin");
  ASSERT_TRUE(load(builder.model).save(path("out.onnx"), SaveMode::external));
  const auto proto = structure(load(path("out.onnx")));
  const auto entry = [](const TensorProto& tensor, int i) { return tensor.external_data(i).value(); };
  EXPECT_EQ(entry(proto.graph().initializer(0), 1), entry(proto.graph().initializer(3), 1));
  EXPECT_EQ(std::stoul(entry(proto.graph().initializer(2), 1)) % 4096, 0U);
  EXPECT_EQ(fs::file_size(path("out.onnx.data")), 4096U + 24 * 16 * 4);
}

TEST_F(SaveTest, MayReplaceItsOwnFileExceptWhenItsWeightsWouldBeLost) {
  const auto file = write(two_layers().model);
  const auto before = load(file).digest().value();
  ASSERT_TRUE(load(file).save(file, SaveMode::inlined));
  EXPECT_EQ(load(file).digest().value(), before);
  EXPECT_EQ(load(file).save(file, SaveMode::keep).error().code, "cannot_write");
  EXPECT_EQ(load(file).digest().value(), before);
  ASSERT_TRUE(load(file).save(file, SaveMode::external));
  ASSERT_TRUE(load(file).save(file, SaveMode::external)) << "over its own data file";
  EXPECT_EQ(load(file).digest().value(), before);
}

TEST_F(SaveTest, KeptNeedsTheWeightsBelowItsFolder) {
  fs::create_directory(path("sub"));
  const auto file = write(two_layers().model, "sub/m.onnx");
  ASSERT_TRUE(load(file).save(path("above.onnx"), SaveMode::keep));
  EXPECT_EQ(load(path("above.onnx")).digest().value(), load(file).digest().value());
  fs::create_directory(path("other"));
  const auto refused = load(file).save(path("other/m.onnx"), SaveMode::keep);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().fault, Fault::usage);
  EXPECT_FALSE(refused.error().hint.empty());
}

TEST_F(SaveTest, SaysWhenItCannotWrite) {
  const Model model = load(two_layers().model);
  for (const auto mode : {SaveMode::inlined, SaveMode::external, SaveMode::keep})
    EXPECT_EQ(model.save(path("none/m.onnx"), mode).error().code, model.save("/proc/m.onnx", mode).error().code);
  EXPECT_EQ(model.save(path("none/m.onnx"), SaveMode::inlined).error().code, "cannot_write");
}

// A sparse file stands for 3 GB of weights.
TEST_F(SaveTest, MoreThanTwoGigabytesLoadAndAreNotInlined) {
  auto builder = two_layers();
  auto& huge = *builder.graph().mutable_initializer(0);
  huge.set_dims(0, 32);
  huge.set_dims(1, std::int64_t{24} << 20);
  const std::uintmax_t bytes = std::uintmax_t{32} * 24 * 1024 * 1024 * 4;
  set_external(huge, "huge.bin", "0", std::to_string(bytes));
  write_bytes(path("huge.bin"), "");
  fs::resize_file(path("huge.bin"), bytes);
  const Model model = load(builder.model);
  EXPECT_GT(model.summary().weight_bytes, std::uint64_t{3} << 30);
  EXPECT_FALSE(model.check().empty());  // the other shapes do not fit; what counts is that it answers
  const auto refused = model.save(path("out.onnx"), SaveMode::inlined);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, "too_large");
  EXPECT_FALSE(fs::exists(path("out.onnx")));
  EXPECT_TRUE(model.save(path("kept.onnx"), SaveMode::keep));
}

TEST_F(SaveTest, DigestSeesEveryChangeAndNothingElse) {
  const auto base = load(two_layers().model).digest().value();
  EXPECT_TRUE(base.starts_with("sha256:"));
  EXPECT_EQ(load(two_layers().model, "another_name.onnx").digest().value(), base);

  auto weight = two_layers();
  weight.graph().mutable_initializer(0)->mutable_raw_data()->at(100) ^= 1;
  EXPECT_NE(load(weight.model).digest().value(), base) << "a bit of a large tensor";
  auto bias = two_layers();
  bias.graph().mutable_initializer(1)->mutable_raw_data()->at(10) ^= 1;
  EXPECT_NE(load(bias.model).digest().value(), base) << "a bit of a small tensor";
  auto name = two_layers();
  name.graph().mutable_node(0)->set_name("renamed");
  EXPECT_NE(load(name.model).digest().value(), base);

  // A small tensor in a file of its own is the same tensor.
  auto outside = two_layers();
  write_bytes(path("b.bin"), outside.graph().initializer(1).raw_data());
  set_external(*outside.graph().mutable_initializer(1), "b.bin", "0", "96");
  EXPECT_EQ(load(outside.model).digest().value(), base);
}

// ONNX's own loader and ONNX Runtime agree on what every way of saving has written.
TEST_F(SaveTest, OtherProgramsReadTheSame) {
  const auto file = write(two_layers().model);
  const Model model = load(file);
  ASSERT_TRUE(model.save(path("inlined.onnx"), SaveMode::inlined));
  ASSERT_TRUE(model.save(path("external.onnx"), SaveMode::external));
  ASSERT_TRUE(model.save(path("kept.onnx"), SaveMode::keep));
  run_python("model/model_peer.py",
             {"same", "0", file, path("inlined.onnx"), path("external.onnx"), path("kept.onnx")});
}

}  // namespace
}  // namespace portwright::test
