#include "model/stream.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/files.h"
#include "model/descriptor.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

tl::unexpected<Error> ends_early(const fs::path& file) {
  return fail({Fault::input, "save", "weights_changed",
               file.string() + " has become shorter since the model was loaded", file.string(), "load the model again",
               ""});
}

// What the kernel can copy by itself; the rest of the range is left for reading and writing.
Status copy_in_kernel(int from, wire::FileRange& left, int to, const fs::path& target) {
  while (left.size > 0) {
    auto offset = static_cast<off_t>(left.offset);
    const ssize_t n = ::copy_file_range(from, &offset, to, nullptr, left.size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EFBIG))
      return fail(file_error("save", "cannot_write", target, errno));
    if (n <= 0) return {};  // not between these file systems, or the end of the file
    left.offset += static_cast<std::uint64_t>(n);
    left.size -= static_cast<std::uint64_t>(n);
  }
  return {};
}

// Fills the buffer, unless the file ends before.
Status fill(int fd, std::uint64_t offset, std::span<std::byte> buffer, const fs::path& file) {
  while (!buffer.empty()) {
    const ssize_t n = ::pread(fd, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(file_error("save", "cannot_read", file, errno));
    if (n == 0) return ends_early(file);
    offset += static_cast<std::uint64_t>(n);
    buffer = buffer.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status read_from(int fd, const wire::FileRange& range, const std::function<Status(std::span<const std::byte>)>& use) {
  std::vector<std::byte> buffer(std::min<std::uint64_t>(range.size, kChunk));
  for (std::uint64_t done = 0; done < range.size;) {
    const auto chunk = std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), range.size - done));
    PW_CHECK(fill(fd, range.offset + done, chunk, range.file));
    PW_CHECK(use(chunk));
    done += chunk.size();
  }
  return {};
}

}  // namespace

Result<wire::FileRange> range_of(const Model::Impl& model, const onnx::TensorProto& tensor) {
  const Placement placement = placement_of(tensor);
  PW_TRY(file, model.weight_file(placement.location));
  return wire::FileRange{file, placement.offset, placement.length};
}

Status read_chunks(const wire::FileRange& range, const std::function<Status(std::span<const std::byte>)>& use) {
  const Descriptor from(::open(range.file.c_str(), O_RDONLY | O_CLOEXEC));
  if (from.get() < 0) return fail(file_error("save", "cannot_read", range.file, errno));
  return read_from(from.get(), range, use);
}

Result<std::uint64_t> append_range(const wire::FileRange& range, int fd, const fs::path& target) {
  const Descriptor from(::open(range.file.c_str(), O_RDONLY | O_CLOEXEC));
  if (from.get() < 0) return fail(file_error("save", "cannot_read", range.file, errno));
  wire::FileRange left = range;
  PW_CHECK(copy_in_kernel(from.get(), left, fd, target));
  PW_CHECK(read_from(from.get(), left, [&](std::span<const std::byte> bytes) { return write_all(fd, bytes, target); }));
  return range.size;
}

Status append_rope(const wire::Rope& rope, int fd, const fs::path& target) {
  for (const auto& piece : rope.pieces()) {
    if (const auto* text = std::get_if<std::string>(&piece)) {
      PW_CHECK(write_all(fd, std::as_bytes(std::span(*text)), target));
    } else {
      PW_CHECK(append_range(std::get<wire::FileRange>(piece), fd, target));
    }
  }
  return {};
}

namespace {

// Fields in the order of their numbers, as protobuf writes them: raw_data goes before the first larger number.
Result<wire::Rope> insert_raw_data(onnx::TensorProto tensor, wire::Rope&& payload) {
  constexpr std::uint32_t kRaw = onnx::TensorProto::kRawDataFieldNumber;
  tensor.clear_raw_data();
  tensor.clear_external_data();
  tensor.clear_data_location();
  const std::string rest = tensor.SerializeAsString();
  const wire::Source source{std::string_view(rest)};
  wire::Rope out;
  std::optional<wire::Rope> waiting = std::move(payload);
  for (wire::Reader reader(source, 0, rest.size());;) {
    PW_TRY(field, reader.next());
    if (waiting && (!field || field->number > kRaw)) {
      out.add_field(kRaw, *std::exchange(waiting, std::nullopt));
    }
    if (!field) return out;
    PW_CHECK(out.add_copy(source, *field));
  }
}

}  // namespace

Result<wire::Rope> with_payloads(const onnx::ModelProto& model, const Payload& payload) {
  std::string structure;
  if (!model.SerializeToString(&structure))
    return fail(
        {Fault::input, "save", "structure_too_large", "the structure of the model has more than 2 GB", "", "", ""});
  const wire::Source source{std::string_view(structure)};
  return wire::rewrite_model(
      source, [&](const wire::Source&, std::uint64_t begin, std::uint64_t end) -> Result<wire::Rope> {
        const std::string_view bytes = std::string_view(structure).substr(begin, end - begin);
        onnx::TensorProto tensor;
        if (!tensor.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
          return fail(
              {Fault::defect, "save", "unreadable_tensor", "a tensor of the structure does not parse", "", "", ""});
        PW_TRY(raw, payload(tensor));
        if (raw) return insert_raw_data(std::move(tensor), std::move(*raw));
        wire::Rope as_it_is;
        as_it_is.add(bytes);
        return as_it_is;
      });
}

}  // namespace portwright
