// Weights at a reduced precision, with the loss in the graph itself.
#include <unordered_set>
#include <vector>

#include "base/files.h"
#include "model/save.h"
#include "model/stream.h"

namespace portwright {
namespace {

Error precision_error(std::string code, std::string message, std::string hint) {
  return {Fault::usage, "convert", std::move(code), std::move(message), "", std::move(hint), ""};
}

bool is_rounded(const onnx::TensorProto& tensor) {
  return is_external(tensor) && tensor.data_type() == onnx::TensorProto::FLOAT;
}

void append_cast(onnx::GraphProto& graph, const std::string& from, const std::string& to) {
  auto* node = graph.add_node();
  node->set_name(to + "_restored");
  node->set_op_type("Cast");
  node->add_input(from);
  node->add_output(to);
  auto* attribute = node->add_attribute();
  attribute->set_name("to");
  attribute->set_type(onnx::AttributeProto::INT);
  attribute->set_i(onnx::TensorProto::FLOAT);
}

// A name that nothing in the graph has yet.
std::string fresh_name(const std::string& wanted, std::unordered_set<std::string>& taken) {
  std::string name = wanted;
  for (int i = 2; !taken.insert(name).second; ++i) name = wanted + "_" + std::to_string(i);
  return name;
}

std::unordered_set<std::string> value_names(const onnx::GraphProto& graph) {
  std::unordered_set<std::string> names;
  for_each_graph(graph, [&](const onnx::GraphProto& each) {
    for (const auto& input : each.input()) names.insert(input.name());
    for (const auto& tensor : each.initializer()) names.insert(tensor.name());
    for (const auto& node : each.node()) names.insert(node.output().begin(), node.output().end());
  });
  return names;
}

// An initializer that is also an input could be given by the caller; the Cast's output cannot.
void drop_input(onnx::GraphProto& graph, const std::string& name) {
  for (int i = graph.input_size() - 1; i >= 0; --i)
    if (graph.input(i).name() == name) graph.mutable_input()->DeleteSubrange(i, 1);
}

// Gives each large float32 initializer another type and name, and puts a Cast in front that gives its old name back.
void add_casts(onnx::GraphProto& graph, Dtype precision) {
  const std::string suffix = precision == Dtype::f16 ? "_f16" : "_bf16";
  auto taken = value_names(graph);
  onnx::GraphProto casts;
  for (auto& tensor : *graph.mutable_initializer()) {
    if (!is_rounded(tensor)) continue;
    const std::string name = tensor.name();
    tensor.set_name(fresh_name(name + suffix, taken));
    tensor.set_data_type(onnx_type_of(precision));
    append_cast(casts, tensor.name(), name);
    drop_input(graph, name);
  }
  casts.mutable_node()->MergeFrom(graph.node());
  graph.mutable_node()->Swap(casts.mutable_node());
}

Result<std::uint64_t> write_rounded(const wire::FileRange& bytes, Dtype precision, int fd,
                                    const std::filesystem::path& file) {
  std::vector<std::byte> carry;  // a float may be cut by the end of a chunk
  PW_CHECK(read_chunks(bytes, [&](std::span<const std::byte> chunk) {
    carry.insert(carry.end(), chunk.begin(), chunk.end());
    const std::size_t count = carry.size() / sizeof(float);
    const auto whole = Tensor::view(Dtype::f32, {static_cast<std::int64_t>(count)}, carry.data(), nullptr);
    const Tensor rounded = converted(whole, precision);
    carry.erase(carry.begin(), carry.begin() + static_cast<std::ptrdiff_t>(count * sizeof(float)));
    return write_all(fd, rounded.bytes(), file);
  }));
  return bytes.size / 2;
}

}  // namespace

Result<Model> Model::with_weights_rounded(Dtype precision, const std::filesystem::path& file) const {
  if (precision != Dtype::f16 && precision != Dtype::bf16)
    return fail(precision_error("bad_precision", "weights cannot be rounded to " + std::string(to_string(precision)),
                                "use float16 or bfloat16"));
  if (precision == Dtype::bf16 && opset() < 13)
    return fail(precision_error("opset_too_old", "opset " + std::to_string(opset()) + " has no bfloat16",
                                "convert the model to opset 13 or later first"));
  onnx::ModelProto proto = impl_->proto;
  add_casts(*proto.mutable_graph(), precision);
  // Only the tensors that add_casts() has changed take another number of bytes than they have.
  const WriteTensor write = [&](const onnx::TensorProto& tensor, const wire::FileRange& bytes,
                                int fd) -> Result<std::uint64_t> {
    if (raw_bytes(tensor.data_type(), tensor.dims()) != bytes.size) return write_rounded(bytes, precision, fd, file);
    return append_range(bytes, fd, file);
  };
  PW_CHECK(save_external(*impl_, std::move(proto), file, write));
  return load(file);
}

}  // namespace portwright
