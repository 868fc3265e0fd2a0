// Where nodes come from: names, and the user's Python lines that exporters leave in metadata.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <string_view>

#include "portwright/model.h"

namespace portwright {

// A node's name, else its first output, so that every node can be named in a message.
std::string label_of(const onnx::NodeProto& node);
NodeOrigin origin_of(const onnx::NodeProto& node);
// The frame of a Python stack trace that the user wrote: the innermost outside of torch's own package, else the
// innermost. "net.py:31 in forward: return x.view(2, -1)"; empty when the text holds no frame.
std::string python_line(std::string_view stack_trace);

}  // namespace portwright
