// What a Graph holds. Only src/model may include this.
#pragma once

#include <onnx/onnx_pb.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "model/impl.h"
#include "portwright/graph.h"

namespace portwright {

inline std::size_t at(NodeId id) { return static_cast<std::size_t>(id); }
inline std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }
inline std::size_t at(BlockId id) { return static_cast<std::size_t>(id); }

struct Graph::Impl {
  struct Node {
    onnx::NodeProto proto;                     // without inputs, outputs, the graphs of its attributes, and remarks
    const onnx::NodeProto* remarks = nullptr;  // node of the base whose documentation and metadata it bears
    std::vector<ValueId> inputs, outputs;
    std::vector<std::uint32_t> places;  // of each input among the uses of its value
    std::vector<BlockId> bodies;        // of its attributes with graphs, in their order
    BlockId block = BlockId::top;
    NodeId previous = NodeId::none, next = NodeId::none;
    bool alive = true;
  };
  struct Value {
    std::string name;
    NodeId producer = NodeId::none;
    BlockId block = BlockId::top;
    std::vector<Use> uses;
    bool input = false, alive = true;
    std::unique_ptr<onnx::TensorProto> constant;  // of an initializer
    std::unique_ptr<onnx::TypeProto> type;
    std::optional<std::vector<std::int64_t>> known;  // integers that shape propagation has found out
  };
  struct Block {
    onnx::GraphProto shell;  // without nodes, initializers, inputs and outputs
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

  ValueId new_value(std::string name, BlockId block);
  std::string fresh(std::string_view wanted);
  std::uint32_t& place_of(const Use& use);
  void add_use(ValueId value, const Use& use);
  void drop_use(ValueId value, const Use& use);
  void link_before(NodeId node, BlockId block, NodeId place);  // none: at the end
  void unlink(NodeId node);
  void erase_block(BlockId block);
  // What a node says beside what it computes (metadata, documentation) is half of the structure of an exported model:
  // it stays in the base until a model is made.
  enum class Remarks { kept, dropped };
  onnx::GraphProto graph_proto(BlockId block, Remarks remarks = Remarks::kept) const;
  onnx::NodeProto node_proto(NodeId node, Remarks remarks = Remarks::kept) const;
  onnx::ModelProto model_proto(Remarks remarks) const;
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
  std::unordered_set<std::string> names;  // that are or were taken
  std::shared_ptr<Scratch> scratch;
  std::optional<bool> declared_trusted;  // types that the model declares contradict none that is inferred
};

}  // namespace portwright
