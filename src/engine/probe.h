// Asks an engine which models it loads at all, instead of keeping a table that ages.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace portwright {

// A serialized ModelProto with one Identity node on a float32 scalar, of this opset and IR version.
std::string identity_model(std::int64_t opset, std::int64_t ir_version);

struct Newest {
  std::int64_t opset = 0, ir_version = 0;
};
// The newest versions whose identity model `loads`. Probing starts a little above what exists and goes down.
Newest newest_versions(const std::function<bool(const std::string& model)>& loads);

}  // namespace portwright
