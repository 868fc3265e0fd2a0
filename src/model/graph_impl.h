// What a Graph holds. Only src/model may include this.
#pragma once

#include <onnx/onnx_pb.h>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "model/impl.h"
#include "model/working_copy.h"
#include "portwright/graph.h"

namespace portwright {

inline std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }
inline std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
inline std::size_t at(BlockId id) { return static_cast<std::size_t>(id); }

struct Graph::Impl {
  struct Node {
    // What passes ask of every node, in one cache line. The two words are interned.
    std::string_view op, domain;  // domain: "" for ai.onnx
    NodeId previous = NodeId::none, next = NodeId::none;
    BlockId block = BlockId::top;
    bool alive = true;
    // Operator and attributes: of the base as long as nothing changes them, else its own. The inputs, outputs and
    // graphs that stand there say nothing.
    const onnx::NodeProto* proto = nullptr;
    std::unique_ptr<onnx::NodeProto> own;
    const onnx::NodeProto* remarks = nullptr;  // node of the base whose documentation and metadata it bears
    std::vector<ValueId> inputs, outputs;
    std::vector<std::uint32_t> places;  // of each input among the uses of its value
    std::vector<BlockId> bodies;        // of its attributes with graphs, in their order
  };
  struct Value {
    const std::string* name = nullptr;  // in the base or among made_names
    NodeId producer = NodeId::none;
    BlockId block = BlockId::top;
    std::vector<Use> uses;
    bool input = false, alive = true;
    std::shared_ptr<const onnx::TensorProto> constant;  // of an initializer: in the base or made
    const onnx::TypeProto* type = nullptr;              // in the base or in `inferred`
    std::optional<std::vector<std::int64_t>> known;     // integers that shape propagation has found out
  };
  struct Block {
    const onnx::GraphProto* shell = nullptr;  // of the base: all but nodes, initializers, inputs and outputs
    std::optional<google::protobuf::RepeatedPtrField<onnx::ValueInfoProto>> declared;  // instead of the shell's
    NodeId owner = NodeId::none, first = NodeId::none, last = NodeId::none;
    std::vector<ValueId> inputs, outputs, initializers;
    std::vector<std::uint32_t> output_places;  // of each output among the uses of its value
    std::vector<onnx::ValueInfoProto> input_infos, output_infos;
  };
  // Large constants that were made here: a file each, which lives as long as a model that needs it.
  struct Scratch;

  explicit Impl(const Model& model) : base(model) {}
  const Node& node(NodeId id) const { return nodes[at(id)]; }
  Node& node(NodeId id) { return nodes[at(id)]; }
  const Value& value(ValueId id) const { return values[at(id)]; }
  Value& value(ValueId id) { return values[at(id)]; }
  const Block& block(BlockId id) const { return blocks[at(id)]; }
  Block& block(BlockId id) { return blocks[at(id)]; }

  ValueId new_value(const std::string& stable_name, BlockId block);
  const std::string& keep(std::string name);               // a stable name
  const std::string& fresh_name(std::string_view wanted);  // a stable name that no value has or had
  std::string_view interned(const std::string& word) { return *words.insert(word).first; }
  void take_operator(NodeId node);  // notes operator and domain of its proto
  onnx::NodeProto& editable(NodeId node);
  std::uint32_t& place_of(const Use& use);
  void add_use(ValueId value, const Use& use);
  void drop_use(ValueId value, const Use& use);
  void link_before(NodeId node, BlockId block, NodeId place);  // none: at the end
  void unlink(NodeId node);
  void erase_block(BlockId block);
  void write(NodeId node, Form form, onnx::NodeProto& out) const;
  void write(BlockId block, Form form, onnx::GraphProto& out) const;
  Model wrapped(onnx::ModelProto proto) const;
  Result<Tensor> read(const onnx::TensorProto& tensor) const;
  // Takes the bytes of a constant that was made here into the structure, for engines look beside the model only.
  void bring_inside(onnx::TensorProto& tensor) const;
  onnx::TensorProto stored(std::string name, const Tensor& tensor);

  Model base;
  onnx::ModelProto shell;  // all but the graph
  std::vector<Node> nodes;
  std::vector<Value> values;
  std::vector<Block> blocks;
  std::unordered_set<std::string> words;
  std::deque<std::string> made_names;
  std::optional<std::unordered_set<std::string_view>> taken_names;  // by values, now or before; known when first needed
  WorkingCopy inferred;                                             // what the last inference was done on
  std::shared_ptr<Scratch> scratch;
  std::optional<bool> declared_trusted;  // types that the model declares contradict none that is inferred
};

}  // namespace portwright
