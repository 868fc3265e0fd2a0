#include "engine/onnxruntime/engine.h"
#include "engine/openvino/engine.h"
#include "engine/tensorrt/engine.h"
#include "portwright/engine.h"

namespace portwright {

const std::vector<std::unique_ptr<Engine>>& engines() {
  static const std::vector<std::unique_ptr<Engine>> all = [] {
    std::vector<std::unique_ptr<Engine>> list;
    list.push_back(make_onnxruntime());
    list.push_back(make_openvino());
    list.push_back(make_tensorrt());
    return list;
  }();
  return all;
}

Result<const Engine*> find_engine(const std::string& name) {
  std::string known;
  for (const auto& engine : engines()) {
    if (engine->name() == name) return engine.get();
    known += (known.empty() ? "" : ", ") + engine->name();
  }
  return fail(
      {Fault::usage, "target", "bad_target", "no engine is called '" + name + "'", name, "engines: " + known, ""});
}

}  // namespace portwright
