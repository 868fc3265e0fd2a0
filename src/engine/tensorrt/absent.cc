// Stands in for TensorRT where its headers were not found when Portwright was built.
#include "engine/tensorrt/engine.h"

namespace portwright {
namespace {

Error absent(const char* stage) {
  return {Fault::environment,
          stage,
          "environment",
          "this build has no TensorRT",
          "tensorrt",
          "install TensorRT's headers and libraries and an NVIDIA driver, then build again",
          ""};
}

class AbsentTensorRt : public Engine {
 public:
  std::string name() const override { return "tensorrt"; }
  Result<std::string> available() const override { return fail(absent("available")); }
  std::vector<std::string> devices() const override { return {}; }
  std::vector<std::string> precisions() const override { return {}; }
  std::int64_t newest_opset() const override { return 0; }
  std::int64_t newest_ir_version() const override { return 0; }
  bool takes(std::int64_t, std::int64_t) const override { return false; }
  Result<std::vector<NodeSupport>> supports(const Model&, const Target&) const override {
    return fail(absent("supports"));
  }
  Result<std::unique_ptr<Session>> compile(const Model&, const CompileOptions&) const override {
    return fail(absent("compile"));
  }
  Result<std::unique_ptr<Session>> load(const std::filesystem::path&, const CompileOptions&) const override {
    return fail(absent("load"));
  }
};

}  // namespace

std::unique_ptr<Engine> make_tensorrt() { return std::make_unique<AbsentTensorRt>(); }

}  // namespace portwright
