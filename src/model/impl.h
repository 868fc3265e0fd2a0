// What a Model holds. Only src/model and rooms that link the ONNX library may include this.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "portwright/model.h"

namespace portwright {

// A file that holds weights, as it was when the model was loaded.
struct WeightFile {
  std::filesystem::path path;  // canonical
  std::uint64_t size = 0, inode = 0;
  std::int64_t modified_ns = 0;
};

// The identity of a file. Errors: cannot_read.
Result<WeightFile> weight_state(const std::filesystem::path& path);

struct Model::Impl {
  onnx::ModelProto proto;  // large tensors are external, with a complete location, offset and length
  std::filesystem::path file, folder;
  std::map<std::string, WeightFile> weights;   // by location
  std::shared_ptr<const void> kept = nullptr;  // what must live as long as the weights: temporary files

  static Model wrap(Impl impl);
  // The same model around another graph: same file, same weights.
  Model with(onnx::ModelProto changed) const;
  // The file of a location; error weights_changed (Fault::input) when it is no longer what was loaded.
  Result<std::filesystem::path> weight_file(const std::string& location) const;
};

}  // namespace portwright
