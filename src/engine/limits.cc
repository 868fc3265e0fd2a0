#include "portwright/engine.h"

namespace portwright {
namespace {

void compare(std::vector<Finding>& out, const Engine& engine, const char* code, const std::string& what,
             std::int64_t has, std::int64_t newest, const std::string& hint) {
  if (newest == 0 || has <= newest) return;
  out.push_back({Severity::warning, code, "",
                 engine.name() + " takes " + what + " " + std::to_string(newest) + " at most",
                 what + " " + std::to_string(newest) + " or lower", std::to_string(has), hint});
}

}  // namespace

std::vector<Finding> engine_limits(const Model& model) {
  std::vector<Finding> out;
  for (const auto& engine : engines()) {
    if (engine->takes(model.opset(), model.ir_version()) || !engine->available()) continue;
    const std::string opset = std::to_string(engine->newest_opset());
    compare(out, *engine, "opset_beyond_engine", "opset", model.opset(), engine->newest_opset(),
            "portwright convert-opset MODEL --opset " + opset + " -o OUT");
    compare(out, *engine, "ir_beyond_engine", "IR version", model.ir_version(), engine->newest_ir_version(),
            "save the model with an older onnx package, or set its ir_version");
  }
  return out;
}

}  // namespace portwright
