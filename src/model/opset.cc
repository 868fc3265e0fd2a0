// Another opset, by the ONNX library's version converter, which knows only a part of a ModelProto: the rest is carried
// over.
#include <onnx/common/constants.h>
#include <onnx/defs/schema.h>
#include <onnx/version_converter/convert.h>

#include <algorithm>
#include <array>
#include <exception>
#include <unordered_map>

#include "base/library_at_work.h"
#include "model/impl.h"
#include "model/inference.h"
#include "model/tensors.h"

namespace portwright {
namespace {

Error conversion_error(std::int64_t version, const Model& model, std::string reason) {
  // The converter's own checks come with file and line of its source.
  if (const auto check = reason.find("failed: "); check != std::string::npos && reason.find("Assertion") < check)
    reason.erase(0, check + 8);
  std::replace(reason.begin(), reason.end(), '\n', ' ');
  return {Fault::gate,
          "convert-opset",
          "conversion_failed",
          model.file().string() + ": opset " + std::to_string(model.opset()) + " cannot become " +
              std::to_string(version) + ": " + reason,
          model.file().string(),
          "export the model with that opset instead",
          ""};
}

// What the converter would drop without a word.
std::string lost_in_conversion(const onnx::ModelProto& proto) {
  if (proto.training_info_size() > 0) return "it holds a training graph";
  bool sparse = false;
  for_each_graph(proto.graph(), [&](const onnx::GraphProto& graph) { sparse |= graph.sparse_initializer_size() > 0; });
  return sparse ? "it holds sparse initializers" : "";
}

// Nodes keep the names of their outputs; what the converter has made anew has no history.
void restore_metadata(const onnx::ModelProto& from, onnx::ModelProto& to) {
  std::unordered_map<std::string_view, const onnx::NodeProto*> by_output;
  for (const auto& node : from.graph().node())
    for (const auto& output : node.output())
      if (!output.empty()) by_output[output] = &node;
  for (auto& node : *to.mutable_graph()->mutable_node()) {
    const auto found = node.output_size() > 0 ? by_output.find(node.output(0)) : by_output.end();
    if (found != by_output.end() && node.metadata_props_size() == 0)
      *node.mutable_metadata_props() = found->second->metadata_props();
  }
  *to.mutable_graph()->mutable_metadata_props() = from.graph().metadata_props();
  *to.mutable_graph()->mutable_quantization_annotation() = from.graph().quantization_annotation();
  *to.mutable_configuration() = from.configuration();
}

bool equal(const onnx::AttributeProto& a, const onnx::AttributeProto& b) {
  return a.type() == b.type() && a.i() == b.i() && a.f() == b.f() && a.s() == b.s() &&
         std::equal(a.ints().begin(), a.ints().end(), b.ints().begin(), b.ints().end());
}

// Attributes that the older operator does not have, at the value that the newer one has without them: the converter
// leaves them, and the node is not valid then.
void drop_defaults(onnx::GraphProto& graph, int from, int to) {
  for (auto& node : *graph.mutable_node()) {
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) drop_defaults(*attribute.mutable_g(), from, to);
    if (!onnx::IsOnnxDomain(node.domain())) continue;
    const auto* newer = onnx::OpSchemaRegistry::Schema(node.op_type(), from, node.domain());
    const auto* older = onnx::OpSchemaRegistry::Schema(node.op_type(), to, node.domain());
    if (newer == nullptr || older == nullptr) continue;
    for (int i = node.attribute_size() - 1; i >= 0; --i) {
      const auto known = newer->attributes().find(node.attribute(i).name());
      if (known != newer->attributes().end() && !older->attributes().contains(known->first) &&
          equal(known->second.default_value, node.attribute(i)))
        node.mutable_attribute()->DeleteSubrange(i, 1);
    }
  }
}

// The IR version that came with an opset (the table of ONNX's releases).
std::int64_t ir_version_of(std::int64_t opset) {
  static constexpr std::array<std::int64_t, 29> kVersions = {3, 3, 3, 3, 3, 3, 3,  3,  3,  4,  5,  6,  7,  7, 7,
                                                             8, 8, 8, 8, 9, 9, 10, 10, 11, 12, 13, 13, 13, 14};
  if (opset < 0 || opset >= static_cast<std::int64_t>(kVersions.size())) return onnx::Version::IR_VERSION;
  return kVersions[static_cast<std::size_t>(opset)];
}

// A newer opset needs its IR version; for an older one, an IR version that engines of its time do not refuse, but
// one that has what this model uses (8: initializers apart from inputs, and local functions).
void fit_ir_version(onnx::ModelProto& proto, std::int64_t from, std::int64_t to) {
  const std::int64_t fitting = ir_version_of(to);
  if (to >= from) {
    proto.set_ir_version(std::max(proto.ir_version(), fitting));
  } else {
    proto.set_ir_version(std::min(proto.ir_version(), std::max<std::int64_t>(fitting, 8)));
  }
}

std::string first_error(const Model& model) {
  for (const Finding& finding : model.check())
    if (finding.severity == Severity::error) return finding.message;
  return "";
}

}  // namespace

Result<Model> Model::with_opset(std::int64_t version) const {
  if (version == opset()) return *this;
  constexpr std::int64_t kMostVersions = 1000;
  if (version < 1 || version > kMostVersions) return fail(conversion_error(version, *this, "there is no such opset"));
  if (const auto lost = lost_in_conversion(impl_->proto); !lost.empty())
    return fail(conversion_error(version, *this, lost));
  // The converter trusts its input; only a valid model may reach it.
  if (const auto reason = first_error(*this); !reason.empty())
    return fail(conversion_error(version, *this, "the model is not valid: " + reason));
  const auto plain = without_functions(impl_->proto);
  if (!plain) return fail(conversion_error(version, *this, plain.error()));
  onnx::ModelProto converted;
  const LibraryAtWork working(kOnnxLibrary);
  try {
    converted = onnx::version_conversion::ConvertVersion(**plain, static_cast<int>(version));
    restore_metadata(**plain, converted);
    drop_defaults(*converted.mutable_graph(), static_cast<int>(opset()), static_cast<int>(version));
  } catch (const std::exception& problem) {
    return fail(conversion_error(version, *this, problem.what()));
  }
  fit_ir_version(converted, opset(), version);
  Model model = impl_->with(std::move(converted));
  if (const auto reason = first_error(model); !reason.empty())
    return fail(conversion_error(version, *this, "the result is not valid: " + reason));
  return model;
}

}  // namespace portwright
