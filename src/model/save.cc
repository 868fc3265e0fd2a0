#include "model/save.h"

#include <unistd.h>

#include <cerrno>
#include <limits>
#include <map>
#include <tuple>

#include "base/files.h"
#include "model/stream.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

constexpr std::uint64_t kAlignment = 4096;  // a page, so that engines can map a tensor by itself
constexpr std::uint64_t kMostInlined = std::numeric_limits<std::int32_t>::max();  // what protobuf reads

Error save_error(Fault fault, std::string code, std::string message, const fs::path& file, std::string hint) {
  return {fault, "save", std::move(code), std::move(message), file.string(), std::move(hint), ""};
}

// The folder that will hold `file`, without links.
Result<fs::path> folder_of(const fs::path& file) {
  std::error_code code;
  fs::path folder = fs::canonical(file.has_parent_path() ? file.parent_path() : fs::path("."), code);
  if (code) return fail(file_error("save", "cannot_write", file, code.value()));
  return folder;
}

// Leaves the weights where they are: only their locations change, if the new file lies in a folder above them.
Status save_kept(const Model::Impl& model, const fs::path& file) {
  PW_TRY(folder, folder_of(file));
  std::map<std::string, std::string> moved;
  for (const auto& [location, weights] : model.weights) {
    PW_TRY(now_at, model.weight_file(location));
    if (now_at == folder / file.filename())
      return fail(save_error(Fault::usage, "cannot_write", file.string() + " holds the weights of this very model",
                             file, "save under another name"));
    const fs::path relative = now_at.lexically_relative(folder);
    if (relative.empty() || *relative.begin() == "..")
      return fail(
          save_error(Fault::usage, "cannot_write",
                     file.string() + " would lie outside of the folder of its weights, " + model.folder.string(), file,
                     "save it in that folder, or with external or inlined weights"));
    moved[location] = relative.string();
  }
  onnx::ModelProto proto = model.proto;
  for_each_tensor(proto, [&](onnx::TensorProto& tensor) {
    if (!is_external(tensor)) return true;
    Placement placement = placement_of(tensor);
    placement.location = moved.at(placement.location);
    place(tensor, placement);
    return true;
  });
  return write_atomically(file, proto.SerializeAsString());
}

Status save_inlined(const Model::Impl& model, const fs::path& file) {
  auto rope = with_payloads(model.proto, [&](const onnx::TensorProto& tensor) -> Result<std::optional<wire::Rope>> {
    if (!is_external(tensor)) return std::nullopt;
    PW_TRY(range, range_of(model, tensor));
    wire::Rope payload;
    payload.add(std::move(range));
    return payload;
  });
  if (!rope) return fail(std::move(rope.error()));
  if (rope->size() > kMostInlined)
    return fail(save_error(
        Fault::usage, "too_large",
        file.string() + " would have " + std::to_string(rope->size()) + " bytes; one ONNX file holds at most 2 GB",
        file, "save the weights as external data"));
  return write_atomically(file, [&](int fd) { return append_rope(*rope, fd, file); });
}

// Writes tensors one behind another. Tensors that share their bytes go on sharing them.
class DataFile {
 public:
  DataFile(const Model::Impl& model, const WriteTensor& write, std::string name, int fd, fs::path path)
      : model_(model), write_(write), name_(std::move(name)), fd_(fd), path_(std::move(path)) {}

  Status move_here(onnx::TensorProto& tensor) {
    const Placement was = placement_of(tensor);
    const Key key{was.location, was.offset, was.length, tensor.data_type()};
    auto found = written_.find(key);
    if (found == written_.end()) {
      PW_TRY(range, range_of(model_, tensor));
      PW_TRY(offset, align());
      PW_TRY(length, write_(tensor, range, fd_));
      end_ = offset + length;
      found = written_.emplace(key, Placement{name_, offset, length}).first;
    }
    place(tensor, found->second);
    return {};
  }

 private:
  using Key = std::tuple<std::string, std::uint64_t, std::uint64_t, int>;

  Result<std::uint64_t> align() {
    const std::uint64_t offset = (end_ + kAlignment - 1) / kAlignment * kAlignment;
    if (::lseek(fd_, static_cast<off_t>(offset), SEEK_SET) < 0)
      return fail(file_error("save", "cannot_write", path_, errno));
    return offset;
  }

  const Model::Impl& model_;
  const WriteTensor& write_;
  std::string name_;
  int fd_;
  fs::path path_;
  std::uint64_t end_ = 0;
  std::map<Key, Placement> written_;
};

}  // namespace

Status save_external(const Model::Impl& model, onnx::ModelProto proto, const fs::path& file, const WriteTensor& write) {
  const fs::path data = file.string() + ".data";
  if (!model.weights.empty()) {
    PW_CHECK(write_atomically(data, [&](int fd) {
      DataFile out(model, write, data.filename().string(), fd, data);
      Status status;
      for_each_tensor(proto, [&](onnx::TensorProto& tensor) {
        if (is_external(tensor)) status = out.move_here(tensor);
        return status.has_value();
      });
      return status;
    }));
  }
  return write_atomically(file, proto.SerializeAsString());
}

SaveMode Model::stored_as() const {
  std::uint64_t bytes = 0;
  for (const auto& [location, weights] : impl_->weights) {
    if (weights.path != impl_->file && weights.path.parent_path() == impl_->folder) return SaveMode::external;
    bytes += weights.size;
  }
  return bytes > kMostInlined ? SaveMode::external : SaveMode::inlined;
}

Status Model::save(const fs::path& file, SaveMode mode) const {
  switch (mode) {
    case SaveMode::keep:
      return save_kept(*impl_, file);
    case SaveMode::inlined:
      return save_inlined(*impl_, file);
    case SaveMode::external:
      return save_external(*impl_, impl_->proto, file,
                           [&](const onnx::TensorProto&, const wire::FileRange& bytes, int fd) {
                             return append_range(bytes, fd, file);
                           });
  }
  return {};
}

}  // namespace portwright
