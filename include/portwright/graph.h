// A model's graph, made for rewriting: values are interned, every value knows who reads it, replacing and erasing cost
// the number of readers. What it does not know (custom domains, attributes, functions, metadata) it carries along:
// a Graph from which nothing was changed gives the model that it was made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "portwright/model.h"
#include "portwright/tensor.h"

namespace portwright {

// Handles. They stay valid until what they name is erased, and are never reused.
enum class NodeId : std::uint32_t { none = UINT32_MAX };
enum class ValueId : std::uint32_t { none = UINT32_MAX };  // none: an optional input or output that is left out
enum class BlockId : std::uint32_t { top = 0, none = UINT32_MAX };

// One place where a value is read: input `slot` of a node, or, when node is none, output `slot` of a block.
struct Use {
  NodeId node = NodeId::none;
  BlockId block = BlockId::none;
  std::uint32_t slot = 0;
  bool operator==(const Use&) const = default;
};

class Graph {
 public:
  explicit Graph(const Model& model);
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  ~Graph();

  // The graph as a model with the same weights.
  Model model() const;
  // A model of its own with these top-level nodes (in this order), reading `inputs` and giving `outputs`. Constants
  // that the nodes read come along; types of inputs and outputs are those known.
  Model piece(std::span<const NodeId> nodes, std::span<const ValueId> inputs, std::span<const ValueId> outputs) const;

  // --- blocks: the graph itself and the bodies of If, Loop, Scan
  std::vector<NodeId> nodes(BlockId block = BlockId::top) const;  // in order
  std::vector<BlockId> blocks() const;                            // top first, inner ones after those around them
  std::vector<BlockId> bodies(NodeId node) const;
  std::span<const ValueId> inputs(BlockId block = BlockId::top) const;
  std::span<const ValueId> outputs(BlockId block = BlockId::top) const;
  std::size_t node_count() const;                          // of all blocks
  std::int64_t opset(std::string_view domain = "") const;  // 0: not imported
  std::int64_t ir_version() const;

  // --- nodes
  bool alive(NodeId node) const;
  std::string_view op(NodeId node) const;
  std::string_view domain(NodeId node) const;  // "" for ai.onnx
  std::string name(NodeId node) const;         // its own, or that of its first output
  BlockId block(NodeId node) const;
  std::span<const ValueId> inputs(NodeId node) const;
  std::span<const ValueId> outputs(NodeId node) const;
  ValueId input(NodeId node, std::size_t slot) const;   // none beyond the last
  ValueId output(NodeId node, std::size_t slot) const;  // none beyond the last
  bool is(NodeId node, std::string_view op) const {
    return node != NodeId::none && domain(node).empty() && this->op(node) == op;
  }

  bool has(NodeId node, std::string_view attribute) const;
  std::int64_t integer(NodeId node, std::string_view attribute, std::int64_t otherwise) const;
  float real(NodeId node, std::string_view attribute, float otherwise) const;
  std::string text(NodeId node, std::string_view attribute, std::string_view otherwise) const;
  std::optional<std::vector<std::int64_t>> integers(NodeId node, std::string_view attribute) const;
  void set(NodeId node, std::string_view attribute, std::int64_t value);
  void set(NodeId node, std::string_view attribute, float value);
  void set(NodeId node, std::string_view attribute, std::string_view value);
  void set(NodeId node, std::string_view attribute, const std::vector<std::int64_t>& value);
  void clear(NodeId node, std::string_view attribute);
  // Operator, domain, attributes and the number of outputs as bytes: equal for nodes that compute the same from the
  // same inputs.
  std::string signature(NodeId node) const;
  // Of what the signature tells, without making it.
  std::size_t signature_hash(NodeId node) const;

  // --- values; what is left out (none) has no name, no type and no readers
  const std::string& name(ValueId value) const;
  NodeId producer(ValueId value) const;  // none for inputs, initializers and names that nothing defines
  BlockId block(ValueId value) const;
  std::span<const Use> uses(ValueId value) const;
  bool is_input(ValueId value) const;
  bool is_output(ValueId value) const;  // of any block
  std::optional<Dtype> dtype(ValueId value) const;
  std::optional<std::vector<Dimension>> shape(ValueId value) const;  // nullopt: not even the rank is known
  std::optional<Shape> fixed_shape(ValueId value) const;             // all dimensions known

  // --- constants: initializers that no caller can override
  bool is_constant(ValueId value) const;
  std::vector<ValueId> constants() const;
  std::uint64_t constant_bytes(ValueId value) const;  // 0 for what is no constant
  Result<Tensor> constant(ValueId value) const;       // reads it from disk when it is large
  // Elements of a small constant of an integer type or bool, or of a value that shape propagation has found out.
  std::optional<std::vector<std::int64_t>> known_integers(ValueId value) const;
  // The element of a float constant all of whose elements are the same.
  std::optional<double> splat(ValueId value) const;
  // Dtype, shape and some of the bytes of a constant: different for different constants, mostly. Cheap for large ones.
  Result<std::string> sample(ValueId value) const;
  // Both hold the same bytes at the same dtype and shape. Reads large ones only when the rest is equal.
  Result<bool> same_constant(ValueId a, ValueId b) const;

  // --- changes
  // Lets everything that reads `old` read `with`, which must be visible there and defined before. A graph output keeps
  // its name: `with` takes it over. False when an output could not be moved (`with` is an input, an initializer, an
  // output itself or lies in another block); the other readers have moved all the same.
  bool replace(ValueId old, ValueId with);
  void set_input(NodeId node, std::size_t slot, ValueId value);  // none leaves it out
  void resize_inputs(NodeId node, std::size_t count);            // new ones are left out
  // Nothing may read its outputs any more.
  void erase(NodeId node);
  // Erases what only led to nothing: nodes without readers, then constants without readers. Gives how many nodes.
  std::size_t sweep();
  struct NewNode {
    std::string op;
    std::vector<ValueId> inputs;
    std::size_t outputs = 1;
    std::string name = {};
    std::string domain = {};
    NodeId like =
        NodeId::none;  // what it stands for: that one's documentation and metadata (the Python line) come along
  };
  // In front of another node of any block. The outputs have fresh names and no types.
  NodeId insert_before(NodeId place, NewNode node);
  // A constant of the top-level graph with a fresh name like `hint`.
  ValueId add_constant(std::string_view hint, const Tensor& tensor);
  // A Constant node becomes an initializer, under the same name; nullopt when its value is no tensor of numbers or it
  // gives an output.
  std::optional<ValueId> take_constant(NodeId node);
  // An If becomes its then or else branch. False when its branches cannot be told.
  bool inline_branch(NodeId node, bool then);

  // Types, shapes and constant integers of all values by the ONNX library, from inputs, initializers and, unless one of
  // them contradicts what is inferred without them, declared types. Never fails; what cannot be inferred stays unknown.
  void infer();
  // Outputs of the top-level graph are declared as inference finds them, for a change that frees a dimension. Infers.
  void declare_outputs();

  struct Impl;  // src/model only
  Impl& impl() { return *impl_; }
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace portwright
