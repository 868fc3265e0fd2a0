// Loading: what stays on disk, external data, and files that want to do harm.
#include <cstring>
#include <random>
#include <set>

#include "builder.h"
#include "model/wire.h"

namespace portwright::test {
namespace {

using LoadTest = ModelTest;
namespace fs = std::filesystem;

// The bytes that an external tensor of a structure points at.
std::string bytes_of(const TensorProto& tensor, const fs::path& folder) {
  std::string location;
  std::size_t offset = 0, length = 0;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") offset = std::stoul(entry.value());
    if (entry.key() == "length") length = std::stoul(entry.value());
  }
  return read_bytes(folder / location).substr(offset, length);
}

TEST_F(LoadTest, LargeTensorsStayInTheFileAndSmallOnesDoNot) {
  const auto original = two_layers().model;
  const Model model = load(original);
  const auto proto = structure(model);
  ASSERT_EQ(proto.graph().initializer_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const auto &now = proto.graph().initializer(i), &was = original.graph().initializer(i);
    const bool large = was.raw_data().size() >= kLargeTensor;
    EXPECT_EQ(now.data_location() == TensorProto::EXTERNAL, large) << now.name();
    EXPECT_EQ(large ? bytes_of(now, model.folder()) : now.raw_data(), was.raw_data());
  }
  EXPECT_EQ(model.folder(), fs::canonical(path("m.onnx").parent_path()));
  EXPECT_EQ(model.opset(), 18);
  EXPECT_EQ(model.ir_version(), 9);
}

TEST_F(LoadTest, StructureLacksNothingButTheLargeTensors) {
  const auto original = two_layers().model;
  auto proto = structure(load(original));
  for (int i = 0; i < proto.graph().initializer_size(); ++i) {
    auto& tensor = *proto.mutable_graph()->mutable_initializer(i);
    tensor.clear_external_data();
    tensor.clear_data_location();
    tensor.set_raw_data(original.graph().initializer(i).raw_data());
  }
  EXPECT_EQ(proto.SerializeAsString(), original.SerializeAsString());
}

TEST_F(LoadTest, FindsLargeTensorsInAttributesSubgraphsFunctionsAndSparseTensors) {
  Builder builder;
  builder.input("x", {2, 32}).input("c", {}, TensorProto::BOOL).output("y", {2, 32});
  auto& constant = builder.node("Constant", {}, {"k"});
  auto& value = *constant.add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  Builder::fill(*value.mutable_t(), "k", {32, 32});
  auto& choice = builder.node("If", {"c"}, {"y"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& graph = set_graph(choice, branch);
    Builder::fill(*graph.add_initializer(), std::string("w_") + branch, {32, 32});
    Builder::add_node(graph, "MatMul", {"x", graph.initializer(0).name()}, {"r"});
    graph.add_output()->set_name("r");
  }
  auto& function = *builder.model.add_functions();
  function.set_name("f");
  auto& inner = *function.add_node();
  inner.set_op_type("Constant");
  inner.add_output("z");
  inner.add_attribute()->set_name("value");
  Builder::fill(*inner.mutable_attribute(0)->mutable_t(), "z", {32, 32});
  auto& sparse = *builder.graph().add_sparse_initializer();
  Builder::fill(*sparse.mutable_values(), "s", {1000});

  const auto proto = structure(load(builder.model));
  const auto external = [](const TensorProto& tensor) { return tensor.data_location() == TensorProto::EXTERNAL; };
  EXPECT_TRUE(external(proto.graph().node(0).attribute(0).t()));
  EXPECT_TRUE(external(proto.graph().node(1).attribute(0).g().initializer(0)));
  EXPECT_TRUE(external(proto.graph().node(1).attribute(1).g().initializer(0)));
  EXPECT_TRUE(external(proto.functions(0).node(0).attribute(0).t()));
  EXPECT_TRUE(external(proto.graph().sparse_initializer(0).values()));
}

TEST_F(LoadTest, PackedFloatsAreRawDataAndOddTensorsStayInline) {
  Builder builder;
  auto& floats = *builder.graph().add_initializer();
  floats.set_name("floats");
  floats.set_data_type(TensorProto::FLOAT);
  floats.add_dims(1000);
  for (int i = 0; i < 1000; ++i) floats.add_float_data(static_cast<float>(i));
  auto& integers = *builder.graph().add_initializer();
  integers.set_name("integers");
  integers.set_data_type(TensorProto::INT64);
  integers.add_dims(1000);
  for (int i = 0; i < 1000; ++i) integers.add_int64_data(i);
  builder.weights("lies", {1000});
  builder.graph().mutable_initializer(2)->set_dims(0, 999);

  const Model model = load(builder.model);
  const auto proto = structure(model);
  const auto bytes = bytes_of(proto.graph().initializer(0), model.folder());
  ASSERT_EQ(bytes.size(), 4000U);
  float last = 0;
  std::memcpy(&last, bytes.data() + 3996, 4);
  EXPECT_EQ(last, 999.0F);
  EXPECT_EQ(proto.graph().initializer(1).int64_data_size(), 1000);
  EXPECT_EQ(proto.graph().initializer(2).raw_data().size(), 4000U);
}

class ExternalDataTest : public ModelTest {
 protected:
  // two_layers() with w0 in another file.
  std::string code_with(const std::string& location, const std::string& offset, const std::string& length) {
    auto builder = two_layers();
    auto& tensor = *builder.graph().mutable_initializer(0);
    set_external(tensor, location, offset, length);
    return load_code(write(builder.model));
  }
  void write_data(const fs::path& file, std::size_t bytes = 64 + 32 * 24 * 4) {
    write_bytes(file, std::string(bytes, '\1'));
  }
};

TEST_F(ExternalDataTest, LoadsWhatLiesInTheFolder) {
  write_data(path("w.bin"));
  EXPECT_EQ(code_with("w.bin", "64", "3072"), "");
  EXPECT_EQ(code_with("w.bin", "64", ""), "") << "the length follows from the shape";
  EXPECT_EQ(code_with("./w.bin", "", ""), "");
  fs::create_directory(path("sub"));
  write_data(path("sub/w.bin"));
  EXPECT_EQ(code_with("sub/w.bin", "0", "3072"), "");
  fs::create_symlink("w.bin", path("link.bin"));
  EXPECT_EQ(code_with("link.bin", "0", "3072"), "") << "a link that stays inside";
}

TEST_F(ExternalDataTest, RefusesToLeaveTheFolder) {
  const auto outside = ScratchFolder::make("portwright-outside-");
  write_data(outside->path() / "w.bin");
  const std::string up = "../" + outside->path().filename().string() + "/w.bin";
  EXPECT_EQ(code_with(outside->path() / "w.bin", "0", "3072"), "unsafe_external_data");
  EXPECT_EQ(code_with(up, "0", "3072"), "unsafe_external_data");
  EXPECT_EQ(code_with("sub/../" + up, "0", "3072"), "unsafe_external_data");
  fs::create_symlink(outside->path() / "w.bin", path("link.bin"));
  EXPECT_EQ(code_with("link.bin", "0", "3072"), "unsafe_external_data");
  fs::create_directory_symlink(outside->path(), path("linked"));
  EXPECT_EQ(code_with("linked/w.bin", "0", "3072"), "unsafe_external_data");
  EXPECT_EQ(code_with(".", "0", "3072"), "unsafe_external_data") << "a folder is no data";
}

TEST_F(ExternalDataTest, SaysWhenDataIsMissing) {
  EXPECT_EQ(code_with("gone.bin", "0", "3072"), "missing_external_data");
  EXPECT_EQ(code_with("", "0", "3072"), "missing_external_data");
}

TEST_F(ExternalDataTest, ChecksBounds) {
  write_data(path("w.bin"));
  EXPECT_EQ(code_with("w.bin", "65", "3072"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "0", "3071"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "0", "3073"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "18446744073709551615", "3072"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "-1", "3072"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "0x10", "3072"), "external_data_out_of_bounds");
  EXPECT_EQ(code_with("w.bin", "99999999999999999999", "3072"), "external_data_out_of_bounds");
}

TEST_F(ExternalDataTest, ChecksAttributesToo) {
  auto builder = two_layers();
  auto& value = *builder.node("Constant", {}, {"k"}).add_attribute();
  value.set_name("value");
  value.set_type(onnx::AttributeProto::TENSOR);
  Builder::fill(*value.mutable_t(), "k", {2});
  set_external(*value.mutable_t(), "/etc/passwd", "0", "8");
  EXPECT_EQ(load_code(write(builder.model)), "unsafe_external_data");
}

TEST_F(ExternalDataTest, NoticesThatTheWeightsChangedSinceLoading) {
  write_data(path("w.bin"));
  auto builder = two_layers();
  set_external(*builder.graph().mutable_initializer(0), "w.bin", "64", "3072");
  const Model model = load(builder.model);
  ASSERT_TRUE(model.digest());
  write_data(path("w.bin"), 100);
  EXPECT_EQ(model.digest().error().code, "weights_changed");
  EXPECT_EQ(model.save(path("other.onnx"), SaveMode::inlined).error().code, "weights_changed");
  EXPECT_FALSE(fs::exists(path("other.onnx")));
}

TEST_F(LoadTest, RefusesWhatIsNoModel) {
  EXPECT_EQ(load_code(path("none.onnx")), "no_such_file");
  EXPECT_EQ(load_code(path("none.onnx").parent_path()), "cannot_read");
  EXPECT_EQ(load_code("/dev/zero"), "cannot_read");
  const auto code_of = [&](std::string_view bytes) {
    write_bytes(path("m.onnx"), bytes);
    return load_code(path("m.onnx"));
  };
  EXPECT_EQ(code_of(""), "not_onnx");
  EXPECT_EQ(code_of("this is a text file, and not a short one either\n"), "not_onnx");
  EXPECT_EQ(code_of("{\"model\": 1}"), "not_onnx");
  EXPECT_EQ(code_of("#!/bin/sh\necho hello\n"), "not_onnx");
  EXPECT_EQ(code_of("<!DOCTYPE html><html><body>404</body></html>"), "not_onnx");
  EXPECT_EQ(code_of(std::string("PK\3\4\24\0\0\0\0\0", 10)), "not_onnx");
  EXPECT_EQ(code_of(std::string("\x89PNG\r\n\x1a\n", 8)), "not_onnx");
  EXPECT_EQ(code_of("\x80\x02}q\x00."), "not_onnx");
  EXPECT_EQ(code_of(std::string(4096, '\0')), "not_onnx");
  EXPECT_EQ(code_of(std::string(4096, '\xff')), "not_onnx");
  EXPECT_EQ(code_of(std::string("\x08\x07", 2)), "no_graph");
}

// A length-delimited field around a message.
std::string field(std::uint32_t number, const std::string& content) {
  wire::Rope rope;
  rope.add_field(number, content);
  return std::move(rope).text();
}

TEST_F(LoadTest, RefusesHugeLengthsDeepNestingAndFloods) {
  const std::string head("\x08\x07", 2);
  write_bytes(path("m.onnx"), head + "\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f");
  EXPECT_EQ(load_code(path("m.onnx")), "truncated");
  write_bytes(path("m.onnx"), head + "\x3a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
  EXPECT_EQ(load_code(path("m.onnx")), "not_onnx");

  std::string nested;  // graph { node { attribute { g { node { ...
  for (int i = 0; i < 2000; ++i) nested = field(1, field(5, field(6, nested)));
  write_bytes(path("m.onnx"), head + field(7, nested));
  EXPECT_EQ(load_code(path("m.onnx")), "too_deep");

  std::string types;  // sequence(sequence(sequence(...
  for (int i = 0; i < 2000; ++i) types = field(4, field(1, types));
  write_bytes(path("m.onnx"), head + field(7, field(11, field(2, types))));
  EXPECT_EQ(load_code(path("m.onnx")), "not_onnx");

  std::string flood;  // 2 bytes of file for each node object in memory
  for (int i = 0; i < 9'000'000; ++i) flood += std::string_view("\x0a\x00", 2);
  write_bytes(path("m.onnx"), head + field(7, flood));
  EXPECT_EQ(load_code(path("m.onnx")), "structure_too_large");
}

// Loads whatever the file holds now and uses it; only crashes and sanitizer reports matter.
void try_everything(const fs::path& file, bool saving) {
  const auto model = Model::load(file);
  if (!model) {
    EXPECT_EQ(model.error().fault, Fault::input) << model.error().code;
    return;
  }
  (void)model->summary();
  (void)model->check();
  (void)model->nodes();
  (void)model->with_all_outputs();
  (void)model->literal_sizes({{"batch", 8}});
  (void)model->digest();
  (void)model->with_opset(17);
  if (saving) (void)model->save(file.string() + ".saved", SaveMode::inlined);  // waits for the disk
}

TEST_F(LoadTest, EveryTruncationIsAnErrorAndNoCrash) {
  const std::string bytes = two_layers().model.SerializeAsString();
  for (std::size_t size = 0; size < bytes.size(); size += size < 400 || size + 400 > bytes.size() ? 1 : 37) {
    write_bytes(path("m.onnx"), bytes.substr(0, size));
    const auto model = Model::load(path("m.onnx"));
    // A cut between two fields of the model leaves a shorter message that is whole.
    if (model) {
      EXPECT_EQ(model->opset(), 0) << size;
      continue;
    }
    const std::set<std::string> expected = {"truncated", "no_graph", "not_onnx"};
    EXPECT_TRUE(expected.contains(model.error().code)) << size << ": " << model.error().code;
  }
}

TEST_F(LoadTest, FlippedBytesNeverCrash) {
  auto builder = two_layers();
  builder.value("h0", {"batch", 24});
  auto& choice = builder.node("If", {"c"}, {"z"});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& graph = set_graph(choice, branch);
    Builder::add_node(graph, "Relu", {"h0"}, {"r"});
    graph.add_output()->set_name("r");
  }
  builder.input("c", {}, TensorProto::BOOL);
  builder.integers("shape", {-1, 24});
  builder.node("Reshape", {"h0", "shape"}, {"q"});
  const std::string bytes = builder.model.SerializeAsString();
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::string broken = bytes;
    const unsigned flips = 1 + seed % 4;
    for (unsigned i = 0; i < flips; ++i) broken[random() % broken.size()] = static_cast<char>(random());
    write_bytes(path("m.onnx"), broken);
    try_everything(path("m.onnx"), seed % 20 == 0);
  }
}

TEST_F(LoadTest, RandomBytesNeverCrash) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    std::string bytes(random() % 5000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (seed % 2 == 0) bytes.insert(0, std::string("\x08\x07", 2));
    write_bytes(path("m.onnx"), bytes);
    try_everything(path("m.onnx"), seed % 20 == 0);
  }
}

}  // namespace
}  // namespace portwright::test
