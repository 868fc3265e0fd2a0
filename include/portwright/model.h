// An ONNX model as structure plus weights that stay on disk.
//
// Loading walks the protobuf wire format of a file: every tensor of kLargeTensor bytes or more is left where it is
// (file, offset, length) and only the rest is parsed. So a Model costs the size of the graph, whatever its weights
// weigh.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

inline constexpr std::size_t kLargeTensor = 1024;  // bytes of raw data from which a tensor stays on disk

// One dimension of a declared shape: a number, a symbol, or unknown.
struct Dimension {
  std::optional<std::int64_t> value;
  std::string symbol;  // empty when fixed or unknown
};
struct ValueInfo {
  std::string name;
  std::optional<Dtype> dtype;  // nullopt: a type that Portwright does not handle; see type_text
  std::string type_text;       // "float32[batch, 3, 224, 224]"
  std::vector<Dimension> shape;
  bool has_shape = false;
};

enum class Severity { error, warning, note };
// One line of `check`.
struct Finding {
  Severity severity = Severity::error;
  std::string code;  // stable, snake_case
  std::string node;  // name of the node or tensor concerned; may be empty
  std::string message, expected, received, hint;
};

struct OpsetImport {
  std::string domain;  // "" is ai.onnx
  std::int64_t version = 0;
};

// What `inspect` says; see records.md.
struct ModelSummary {
  std::vector<ValueInfo> inputs, outputs;
  std::vector<OpsetImport> opsets;
  std::int64_t ir_version = 0;
  std::size_t nodes = 0;  // including those of subgraphs
  std::map<std::string, std::size_t> operators;
  std::uint64_t parameters = 0;  // elements of all initializers
  std::uint64_t weight_bytes = 0;
  std::map<std::string, std::uint64_t> weight_types;  // bytes of weights by dtype: {"float32": 44700000}
  std::optional<std::uint64_t> activation_bytes;      // alive at once at most; shapes as for macs
  std::optional<std::uint64_t> macs;  // multiply-adds at the declared shapes, symbols taken as 1; nullopt when unknown
  std::vector<std::string> dynamic_axes;  // "x.0=batch"
  std::vector<std::string> oddities;
  std::string producer;
};

// Where a node comes from: its name, its operator, and the user's Python line when the exporter kept it.
struct NodeOrigin {
  std::string node;
  std::string op_type;
  std::string python_line;  // "net.py:31 in forward: return x.view(2, -1)"; empty when unknown
};

enum class SaveMode {
  keep,      // large tensors stay where they are, referenced by external data (needs the weights in the same folder)
  inlined,   // one self-contained file; an error above 2 GB
  external,  // structure, and all large tensors in FILE.data beside it
};

class Model {
 public:
  // Errors (Fault::input): no_such_file, not_onnx, truncated, no_graph, unsafe_external_data (leaves the folder or is a
  // link out of it), missing_external_data, external_data_out_of_bounds, and for hostile files too_deep and
  // structure_too_large. A link to a model is followed first: its data is looked for beside the real file.
  static Result<Model> load(const std::filesystem::path& file);

  // What structure() gave, with the weights in `folder`. The same checks as load().
  static Result<Model> from_structure(const std::string& structure, const std::filesystem::path& folder);

  // Streams; never holds weights in memory. Atomic. Errors: cannot_write, too_large (inlined over 2 GB), and
  // weights_changed when a file that holds the weights is no longer the one that was loaded.
  Status save(const std::filesystem::path& file, SaveMode mode) const;

  // How this model was stored: inlined when its weights lie in its own file and still fit one, else external.
  SaveMode stored_as() const;

  // A serialized ModelProto whose large tensors point at external data relative to `folder()`: what engines are fed.
  Result<std::string> structure() const;
  // All weights lie under folder(), so that an engine can be fed structure(); otherwise save() first.
  bool weights_beside() const;
  const std::filesystem::path& folder() const;  // the folder that the weights' locations are relative to
  const std::filesystem::path& file() const;

  std::vector<ValueInfo> inputs() const;  // without initializers
  std::vector<ValueInfo> outputs() const;
  ModelSummary summary() const;
  std::uint64_t weight_bytes() const;  // of all initializers
  std::int64_t opset() const;          // of ai.onnx; 0 when absent
  std::int64_t ir_version() const;

  // ONNX's checker in full mode with strict shape inference, and Portwright's own findings. Shape arithmetic is
  // evaluated at `sizes`, points of the dynamic ranges by symbol; without any, at small sizes of each first axis, where
  // only a node that takes a single one of them is wrong. Never throws.
  std::vector<Finding> check(const std::vector<std::map<std::string, std::int64_t>>& sizes = {}) const;

  // What strict shape inference says against nodes, "NODE: MESSAGE" each, whatever the model declares. Never throws.
  std::vector<std::string> shape_problems() const;

  // sha256 over structure and weights: equal models give equal digests wherever their weights lie.
  Result<std::string> digest() const;

  // By the ONNX library's version converter. Errors: conversion_failed (Fault::gate).
  Result<Model> with_opset(std::int64_t version) const;

  // Float32 weights stored at another precision with a Cast behind each, so that the graph itself carries the loss.
  // The rounded weights are written beside `file`. P is f16 or bf16. Outputs and inputs stay float32.
  // Errors: bad_precision, opset_too_old (bfloat16 needs opset 13), and those of save().
  Result<Model> with_weights_rounded(Dtype precision, const std::filesystem::path& file) const;

  // The same model with every float tensor between nodes (top-level graph) as an additional output.
  Model with_all_outputs() const;

  std::vector<NodeOrigin> nodes() const;  // top-level graph, in order
  // The node that produces a tensor; nullopt for inputs and initializers.
  std::optional<NodeOrigin> producer_of(const std::string& tensor) const;

  // Nodes whose literal shape (Reshape, Expand, Tile, Slice, ...) freezes a size of the example into the graph: running
  // shape inference with each dynamic axis at another size contradicts them. `example` gives the example's size of each
  // symbol.
  std::vector<Finding> literal_sizes(const std::map<std::string, std::int64_t>& example) const;

  Model(const Model&);
  Model(Model&&) noexcept;
  Model& operator=(Model) noexcept;
  ~Model();

  struct Impl;  // src/model only
  const Impl& impl() const { return *impl_; }

 private:
  explicit Model(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace portwright
