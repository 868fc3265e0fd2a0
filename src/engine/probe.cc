#include "engine/probe.h"

namespace portwright {
namespace {

// Just enough of the protobuf wire format to write onnx.proto messages: field numbers are those of onnx.proto.
std::string varint(std::uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  return out + static_cast<char>(value);
}
std::string field(std::uint64_t number, std::int64_t value) {
  return varint(number << 3) + varint(static_cast<std::uint64_t>(value));
}
std::string field(std::uint64_t number, const std::string& bytes) {
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

std::string scalar(const std::string& name) {
  constexpr std::int64_t kFloat = 1;
  const std::string shape;
  const std::string tensor_type = field(1, kFloat) + field(2, shape);
  return field(1, name) + field(2, field(1, tensor_type));
}

constexpr std::int64_t kOldestOpset = 13, kNewestTried = 40, kOldestIr = 7, kNewestIrTried = 20;

}  // namespace

std::string identity_model(std::int64_t opset, std::int64_t ir_version) {
  const std::string node = field(1, std::string("x")) + field(2, std::string("y")) + field(4, std::string("Identity"));
  const std::string graph =
      field(1, node) + field(2, std::string("probe")) + field(11, scalar("x")) + field(12, scalar("y"));
  return field(1, ir_version) + field(7, graph) + field(8, field(1, std::string()) + field(2, opset));
}

Newest newest_versions(const std::function<bool(const std::string&)>& loads) {
  Newest newest;
  for (newest.opset = kNewestTried; newest.opset > kOldestOpset && !loads(identity_model(newest.opset, kOldestIr + 1));)
    --newest.opset;
  for (newest.ir_version = kNewestIrTried;
       newest.ir_version > kOldestIr && !loads(identity_model(kOldestOpset, newest.ir_version));)
    --newest.ir_version;
  return newest;
}

}  // namespace portwright
