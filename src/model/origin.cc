#include "model/origin.h"

#include <charconv>
#include <optional>
#include <vector>

#include "model/impl.h"

namespace portwright {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines.push_back(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  return lines;
}

struct Frame {
  std::string_view path, line, function, code;
};

// `File "/x/net.py", line 31, in forward`
std::optional<Frame> frame_of(std::string_view text) {
  constexpr std::string_view kFile = "File \"", kLine = "\", line ", kIn = ", in ";
  text = trimmed(text);
  if (!text.starts_with(kFile)) return std::nullopt;
  const auto line = text.find(kLine, kFile.size());
  if (line == std::string_view::npos) return std::nullopt;
  const auto number = line + kLine.size();
  const auto in = text.find(kIn, number);
  Frame frame;
  frame.path = text.substr(kFile.size(), line - kFile.size());
  frame.line = text.substr(number, in == std::string_view::npos ? in : in - number);
  if (in != std::string_view::npos) frame.function = text.substr(in + kIn.size());
  return frame;
}

bool is_torch(std::string_view path) { return path.find("site-packages/torch/") != std::string_view::npos; }

}  // namespace

std::string python_line(std::string_view stack_trace) {
  std::optional<Frame> chosen;
  const auto lines = lines_of(stack_trace);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    auto frame = frame_of(lines[i]);
    if (!frame || (chosen && is_torch(frame->path) && !is_torch(chosen->path))) continue;
    if (i + 1 < lines.size() && !frame_of(lines[i + 1])) frame->code = trimmed(lines[i + 1]);
    chosen = frame;
  }
  if (!chosen) return {};
  std::string out(chosen->path.substr(chosen->path.rfind('/') + 1));
  out.append(":").append(chosen->line);
  if (!chosen->function.empty()) out.append(" in ").append(chosen->function);
  if (!chosen->code.empty()) out.append(": ").append(chosen->code);
  return out;
}

std::string label_of(const onnx::NodeProto& node) {
  if (!node.name().empty()) return node.name();
  for (const auto& output : node.output())
    if (!output.empty()) return output;
  return node.op_type();
}

NodeOrigin origin_of(const onnx::NodeProto& node) {
  NodeOrigin origin{label_of(node), node.op_type(), ""};
  for (const auto& entry : node.metadata_props())
    if (entry.key() == "pkg.torch.onnx.stack_trace") origin.python_line = python_line(entry.value());
  return origin;
}

std::vector<NodeOrigin> Model::nodes() const {
  std::vector<NodeOrigin> out;
  for (const auto& node : impl_->proto.graph().node()) out.push_back(origin_of(node));
  return out;
}

std::optional<NodeOrigin> Model::producer_of(const std::string& tensor) const {
  if (tensor.empty()) return std::nullopt;
  for (const auto& node : impl_->proto.graph().node())
    for (const auto& output : node.output())
      if (output == tensor) return origin_of(node);
  return std::nullopt;
}

}  // namespace portwright
