// The graph for rewriting: what goes in comes out, and every reader is known whatever is changed.
#include "portwright/graph.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <complex>

#include "builder.h"

namespace portwright::test {
namespace {

class GraphTest : public ModelTest {
 protected:
  Graph graph_of(const onnx::ModelProto& model) { return Graph(load(model)); }

  onnx::ModelProto proto_of(const Graph& graph) {
    EXPECT_TRUE(graph.model().save(path("graph.onnx"), SaveMode::inlined));
    std::ifstream file(path("graph.onnx"), std::ios::binary);
    onnx::ModelProto out;
    EXPECT_TRUE(out.ParseFromIstream(&file));
    return out;
  }

  static NodeId node(const Graph& graph, const std::string& name) {
    for (const BlockId block : graph.blocks())
      for (const NodeId id : graph.nodes(block))
        if (graph.name(id) == name) return id;
    throw std::runtime_error("no node " + name);
  }

  // Each use is where it says it is, and every input is a use of its value.
  static void expect_consistent(const Graph& graph) {
    for (const BlockId block : graph.blocks()) {
      for (const NodeId id : graph.nodes(block))
        for (std::uint32_t slot = 0; slot < graph.inputs(id).size(); ++slot) {
          const ValueId value = graph.input(id, slot);
          if (value == ValueId::none) continue;
          const auto uses = graph.uses(value);
          EXPECT_EQ(std::count(uses.begin(), uses.end(), Use{id, BlockId::none, slot}), 1) << graph.name(value);
        }
      for (std::uint32_t slot = 0; slot < graph.outputs(block).size(); ++slot) {
        const auto uses = graph.uses(graph.outputs(block)[slot]);
        EXPECT_EQ(std::count(uses.begin(), uses.end(), Use{NodeId::none, block, slot}), 1);
      }
    }
  }
};

// x -> Relu -> a; a and a constant -> Add -> b; b -> Relu -> y
onnx::ModelProto chain() {
  Builder builder;
  builder.input("x", {"n", 4}).output("y", {"n", 4}).weights("w", {4});
  builder.node("Relu", {"x"}, {"a"}, "first");
  builder.node("Add", {"a", "w"}, {"b"}, "sum");
  builder.node("Relu", {"b"}, {"y"}, "last");
  return builder.model;
}

// An If whose branches capture `a` of the graph around them.
onnx::ModelProto captured() {
  Builder builder;
  builder.input("x", {4}).input("c", {}, TensorProto::BOOL).output("y", {4});
  builder.node("Relu", {"x"}, {"a"}, "outer");
  auto& choice = builder.node("If", {"c"}, {"y"}, "choice");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto& attribute = *choice.add_attribute();
    attribute.set_name(branch);
    attribute.set_type(onnx::AttributeProto::GRAPH);
    auto& body = *attribute.mutable_g();
    body.set_name(branch);
    Builder::add_node(body, branch[0] == 't' ? "Exp" : "Neg", {"a"}, {std::string(branch) + "_out"},
                      std::string(branch) + "_op");
    Builder::set_type(*body.add_output(), std::string(branch) + "_out", TensorProto::FLOAT, {4});
  }
  return builder.model;
}

TEST_F(GraphTest, NothingChangedIsTheSameModel) {
  onnx::ModelProto odd = captured();
  odd.set_doc_string("kept");
  auto& meta = *odd.add_metadata_props();
  meta.set_key("author");
  meta.set_value("somebody");
  auto& custom = *odd.mutable_graph()->add_node();
  custom.set_op_type("Strange");
  custom.set_domain("com.example");
  custom.add_input("x");
  custom.add_input("");  // left out
  custom.add_output("unread");
  auto& attribute = *custom.add_attribute();
  attribute.set_name("blob");
  attribute.set_type(onnx::AttributeProto::STRING);
  attribute.set_s(std::string("\0\xff", 2));
  auto& domain = *odd.add_opset_import();
  domain.set_domain("com.example");
  domain.set_version(3);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(proto_of(graph_of(odd)), odd));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(proto_of(graph_of(chain())), chain()));
}

// One value in each field of a message that is not set yet, whatever fields this version of ONNX has.
void fill_fields(google::protobuf::Message& message) {
  const auto* reflection = message.GetReflection();
  const auto* type = message.GetDescriptor();
  for (int i = 0; i < type->field_count(); ++i) {
    const auto* field = type->field(i);
    const bool scalar = !field->is_repeated();
    if (scalar ? reflection->HasField(message, field) : reflection->FieldSize(message, field) > 0) continue;
    switch (field->cpp_type()) {
      case google::protobuf::FieldDescriptor::CPPTYPE_STRING:
        if (scalar) reflection->SetString(&message, field, std::string(field->name()));
        break;
      case google::protobuf::FieldDescriptor::CPPTYPE_INT64:
        if (scalar) reflection->SetInt64(&message, field, 7);
        break;
      case google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE:
        if (!scalar && (field->message_type()->name() == "StringStringEntryProto" ||
                        field->message_type()->name().find("onfiguration") != std::string::npos))
          fill_fields(*reflection->AddMessage(&message, field));
        break;
      default:
        break;
    }
  }
  reflection->MutableUnknownFields(&message)->AddLengthDelimited(1999)->assign("of a later version");
}

TEST_F(GraphTest, EveryFieldSurvives) {
  onnx::ModelProto odd = captured();
  fill_fields(odd);
  fill_fields(*odd.mutable_graph());
  for (auto& node : *odd.mutable_graph()->mutable_node()) {
    fill_fields(node);
    for (auto& attribute : *node.mutable_attribute())
      for (auto& inner : *attribute.mutable_g()->mutable_node()) fill_fields(inner);
  }
  odd.mutable_graph()->mutable_node(0)->set_domain("");  // set, but to nothing
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(proto_of(graph_of(odd)), odd));
}

TEST_F(GraphTest, AnswersAboutNodesAndValues) {
  const Graph graph = graph_of(chain());
  EXPECT_EQ(graph.node_count(), 3U);
  EXPECT_EQ(graph.opset(), 18);
  EXPECT_EQ(graph.opset("com.example"), 0);
  const NodeId sum = node(graph, "sum");
  EXPECT_TRUE(graph.is(sum, "Add"));
  EXPECT_FALSE(graph.is(NodeId::none, "Add"));
  EXPECT_EQ(graph.producer(graph.input(sum, 0)), node(graph, "first"));
  EXPECT_EQ(graph.producer(graph.input(sum, 1)), NodeId::none);
  EXPECT_TRUE(graph.is_constant(graph.input(sum, 1)));
  EXPECT_EQ(graph.constant_bytes(graph.input(sum, 1)), 16U);
  EXPECT_EQ(graph.input(sum, 7), ValueId::none);
  EXPECT_TRUE(graph.is_output(graph.output(node(graph, "last"), 0)));
  expect_consistent(graph);
}

TEST_F(GraphTest, ReplaceMovesEveryReader) {
  Graph graph = graph_of(chain());
  const NodeId sum = node(graph, "sum");
  EXPECT_TRUE(graph.replace(graph.output(sum, 0), graph.input(sum, 0)));
  EXPECT_TRUE(graph.uses(graph.output(sum, 0)).empty());
  EXPECT_EQ(graph.input(node(graph, "last"), 0), graph.output(node(graph, "first"), 0));
  graph.erase(sum);
  EXPECT_FALSE(graph.alive(sum));
  EXPECT_EQ(graph.node_count(), 2U);
  expect_consistent(graph);
  graph.sweep();
  EXPECT_TRUE(graph.constants().empty());
}

TEST_F(GraphTest, AnOutputKeepsItsName) {
  Graph graph = graph_of(chain());
  const NodeId last = node(graph, "last");
  EXPECT_TRUE(graph.replace(graph.output(last, 0), graph.input(last, 0)));
  graph.erase(last);
  const auto proto = proto_of(graph);
  EXPECT_EQ(proto.graph().output(0).name(), "y");
  EXPECT_EQ(proto.graph().node(1).output(0), "y");  // the sum gives it now
}

TEST_F(GraphTest, AnInputCannotTakeAnOutputsName) {
  Builder builder;
  builder.input("x", {4}).output("y", {4}).node("Identity", {"x"}, {"y"}, "copy");
  Graph graph = graph_of(builder.model);
  const NodeId copy = node(graph, "copy");
  EXPECT_FALSE(graph.replace(graph.output(copy, 0), graph.input(copy, 0)));
  EXPECT_EQ(proto_of(graph).graph().output(0).name(), "y");
  expect_consistent(graph);
}

TEST_F(GraphTest, BodiesReadWhatTheyCapture) {
  Graph graph = graph_of(captured());
  const NodeId outer = node(graph, "outer");
  EXPECT_EQ(graph.blocks().size(), 3U);
  EXPECT_EQ(graph.uses(graph.output(outer, 0)).size(), 2U);  // one in each branch
  EXPECT_TRUE(graph.replace(graph.output(outer, 0), graph.input(outer, 0)));
  EXPECT_EQ(graph.sweep(), 1U);
  const auto proto = proto_of(graph);
  for (const auto& attribute : proto.graph().node(0).attribute()) EXPECT_EQ(attribute.g().node(0).input(0), "x");
  expect_consistent(graph);
}

TEST_F(GraphTest, ABranchTakesThePlaceOfItsIf) {
  Graph graph = graph_of(captured());
  EXPECT_TRUE(graph.inline_branch(node(graph, "choice"), false));
  graph.sweep();
  const auto proto = proto_of(graph);
  ASSERT_EQ(proto.graph().node_size(), 2);
  EXPECT_EQ(proto.graph().node(1).op_type(), "Neg");
  EXPECT_EQ(proto.graph().node(1).output(0), "y");
  expect_consistent(graph);
}

TEST_F(GraphTest, NewNodesHaveFreshNamesAndStandForOthers) {
  onnx::ModelProto model = chain();
  auto& meta = *model.mutable_graph()->mutable_node(1)->add_metadata_props();
  meta.set_key("line");
  meta.set_value("net.py:3");
  Graph graph = graph_of(model);
  const NodeId sum = node(graph, "sum");
  const Graph::NewNode wanted{"Mul", {graph.input(sum, 0), graph.input(sum, 1)}, 1, "", "", sum};
  const NodeId first = graph.insert_before(sum, wanted), second = graph.insert_before(sum, wanted);
  EXPECT_NE(graph.name(graph.output(first, 0)), graph.name(graph.output(second, 0)));
  graph.replace(graph.output(sum, 0), graph.output(second, 0));
  EXPECT_EQ(graph.sweep(), 2U);  // the sum and the first product
  const auto proto = proto_of(graph);
  ASSERT_EQ(proto.graph().node_size(), 3);
  EXPECT_EQ(proto.graph().node(1).op_type(), "Mul");
  EXPECT_EQ(proto.graph().node(1).name(), "sum");
  EXPECT_EQ(proto.graph().node(1).metadata_props(0).value(), "net.py:3");
  expect_consistent(graph);
}

TEST_F(GraphTest, ManyChangesLeaveEveryReaderKnown) {
  Builder builder;
  builder.input("x", {4}).output("y", {4});
  std::string before = "x";
  for (int i = 0; i < 200; ++i) {
    const std::string name = "v" + std::to_string(i);
    builder.node(i % 3 == 0 ? "Add" : "Relu", i % 3 == 0 ? std::vector{before, std::string("x")} : std::vector{before},
                 {i == 199 ? "y" : name}, "n" + std::to_string(i));
    before = name;
  }
  Graph graph = graph_of(builder.model);
  for (const NodeId id : graph.nodes())
    if (graph.is(id, "Relu") && !graph.is_output(graph.output(id, 0))) {
      graph.replace(graph.output(id, 0), graph.input(id, 0));
      graph.erase(id);
    }
  expect_consistent(graph);
  EXPECT_LT(graph.node_count(), 70U);
}

TEST_F(GraphTest, ConstantsAreReadAndMadeWhateverTheirSize) {
  Graph graph = graph_of(chain());
  const NodeId sum = node(graph, "sum");
  for (const std::int64_t count : {4, 4096}) {
    Tensor tensor = Tensor::uninitialised(Dtype::f32, {count});
    auto values = tensor.as_mutable<float>();
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const ValueId made = graph.add_constant("made", tensor);
    const auto read = graph.constant(made);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->as<float>()[3], 3.0F);
    EXPECT_TRUE(graph.same_constant(made, graph.add_constant("twin", tensor)).value_or(false));
    EXPECT_FALSE(graph.same_constant(made, graph.input(sum, 1)).value_or(true));
  }
}

// x + k, k with its values in a field of their type.
onnx::ModelProto with_typed_constant(const std::function<void(onnx::TensorProto&)>& fill, std::int64_t count) {
  Builder builder;
  builder.input("x", {"n"}).output("y", {"n"});
  auto& tensor = *builder.graph().add_initializer();
  tensor.set_name("k");
  tensor.add_dims(count);
  fill(tensor);
  builder.node("Add", {"x", "k"}, {"y"}, "sum");
  return builder.model;
}

TEST_F(GraphTest, ConstantsInFieldsOfTheirTypeAreRead) {
  const auto read = [&](const std::function<void(onnx::TensorProto&)>& fill) {
    const Graph graph = graph_of(with_typed_constant(fill, 2));
    auto tensor = graph.constant(graph.input(node(graph, "sum"), 1));
    return tensor.value_or(Tensor());
  };
  const auto half = read([](onnx::TensorProto& t) {
    t.set_data_type(TensorProto::FLOAT16);
    t.add_int32_data(0x3C00);  // 1
    t.add_int32_data(0xC000);  // -2
  });
  ASSERT_EQ(half.count(), 2U);
  EXPECT_EQ(half_to_float(half.as<std::uint16_t>()[1]), -2.0F);
  const auto pair = read([](onnx::TensorProto& t) {
    t.set_data_type(TensorProto::COMPLEX64);
    for (const float value : {1.0F, 2.0F, 3.0F, 4.0F}) t.add_float_data(value);
  });
  ASSERT_EQ(pair.count(), 2U);
  EXPECT_EQ(pair.as<std::complex<float>>()[1], std::complex<float>(3, 4));
}

TEST_F(GraphTest, AShapeWithoutItsValuesIsUnreadableAndTakesNoMemory) {
  const auto fill = [](onnx::TensorProto& tensor) {
    tensor.set_data_type(TensorProto::FLOAT);
    tensor.add_float_data(1);
  };
  const Model model = load(with_typed_constant(fill, std::int64_t{1} << 40));
  const Graph graph(model);
  const auto read = graph.constant(graph.input(node(graph, "sum"), 1));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, "unreadable_constant");
  (void)model.check();
}

TEST_F(GraphTest, InfersTypesAndIntegers) {
  Builder builder;
  builder.input("x", {"n", 4}).output("y", {"n", 2, 2}).integers("rest", {2, 2}).integers("zero", {0});
  builder.node("Shape", {"x"}, {"s"});
  builder.node("Gather", {"s", "zero"}, {"rows"});
  builder.node("Concat", {"rows", "rest"}, {"target"}).set_name("join");
  set_attribute(*builder.graph().mutable_node(2), "axis", 0);
  builder.node("Reshape", {"x", "target"}, {"y"}, "view");
  Graph graph = graph_of(builder.model);
  graph.infer();
  const auto shape = graph.shape(graph.output(node(graph, "view"), 0));
  ASSERT_TRUE(shape);
  EXPECT_EQ((*shape)[0].symbol, "n");
  EXPECT_EQ((*shape)[1].value, 2);
  EXPECT_EQ(graph.dtype(graph.output(node(graph, "join"), 0)), Dtype::i64);
  EXPECT_EQ(graph.known_integers(graph.input(node(graph, "join"), 1)), (std::vector<std::int64_t>{2, 2}));
}

}  // namespace
}  // namespace portwright::test
