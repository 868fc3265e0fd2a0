#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/files.h"
#include "base/process.h"

namespace portwright {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kGrain = std::size_t{2} << 20;

std::size_t aligned(std::size_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

Error memory_error(const char* what) {
  return {Fault::environment,
          "share",
          "out_of_memory",
          std::string(what) + ": " + std::strerror(errno),
          "",
          "free some memory, or use smaller inputs",
          ""};
}

Error bad_message(const std::string& what) {
  return {Fault::gate, "share", "bad_message", "a worker sent " + what, "", "", ""};
}

}  // namespace

struct SharedMemory::State {
  int fd = -1;
  std::size_t capacity = 0;  // bytes of the file, as far as this end knows
  std::shared_ptr<std::byte> mapping;
  std::size_t mapped = 0;
  struct Old {
    std::weak_ptr<std::byte> mapping;
    std::size_t size;
  };
  std::vector<Old> old;  // mappings that tensors may still use

  ~State() {
    if (fd >= 0) ::close(fd);
  }
};

SharedMemory::SharedMemory(std::unique_ptr<State> state) : state_(std::move(state)) {}
SharedMemory::SharedMemory(SharedMemory&&) noexcept = default;
SharedMemory& SharedMemory::operator=(SharedMemory&&) noexcept = default;
SharedMemory::~SharedMemory() = default;

Result<SharedMemory> SharedMemory::create(const char* name) {
  auto state = std::make_unique<State>();
  state->fd = ::memfd_create(name, MFD_CLOEXEC);
  if (state->fd < 0) return fail(memory_error("cannot make shared memory"));
  return SharedMemory(std::move(state));
}

Result<SharedMemory> SharedMemory::attach(int fd) {
  auto state = std::make_unique<State>();
  state->fd = fd;
  return SharedMemory(std::move(state));
}

int SharedMemory::fd() const { return state_->fd; }

Status SharedMemory::grow(std::size_t bytes) {
  if (bytes <= state_->capacity) return {};
  const std::size_t wanted = (std::max(bytes, state_->capacity * 2) + kGrain - 1) / kGrain * kGrain;
  if (::ftruncate(state_->fd, static_cast<off_t>(wanted)) != 0) return fail(memory_error("cannot grow shared memory"));
  state_->capacity = wanted;
  return {};
}

Result<std::shared_ptr<std::byte>> SharedMemory::map(std::size_t bytes) {
  State& s = *state_;
  if (s.mapping && bytes <= s.mapped) return s.mapping;
  struct stat info {};
  if (::fstat(s.fd, &info) != 0) return fail(memory_error("cannot look at shared memory"));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size < bytes) return fail(bad_message("a tensor that lies outside its shared memory"));
  if (size == 0) return std::shared_ptr<std::byte>();
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, s.fd, 0);
  if (data == MAP_FAILED) return fail(memory_error("cannot map shared memory"));
  if (s.mapping) s.old.push_back({s.mapping, s.mapped});
  std::erase_if(s.old, [](const State::Old& old) { return old.mapping.expired(); });
  s.mapping = {static_cast<std::byte*>(data), [size](std::byte* p) { ::munmap(p, size); }};
  s.mapped = size;
  s.capacity = std::max(s.capacity, size);
  return s.mapping;
}

std::optional<std::size_t> SharedMemory::offset_of(const std::byte* data, std::size_t bytes) const {
  const auto within = [&](const std::byte* base, std::size_t size) -> std::optional<std::size_t> {
    if (base == nullptr || data < base || data + bytes > base + size) return std::nullopt;
    return static_cast<std::size_t>(data - base);
  };
  if (auto offset = within(state_->mapping.get(), state_->mapped)) return offset;
  for (const auto& old : state_->old)
    if (auto offset = within(old.mapping.lock().get(), old.size)) return offset;
  return std::nullopt;
}

Json describe(const std::string& name, const Tensor& tensor, std::size_t offset) {
  return Json{{"name", name}, {"dtype", to_string(tensor.dtype())}, {"shape", tensor.shape()}, {"offset", offset}};
}

Result<Json> put_tensors(SharedMemory& box, const Tensors& tensors) {
  Json described = Json::array();
  std::size_t end = 0;  // new tensors go behind those that are already here
  for (const auto& [name, tensor] : tensors)
    if (auto offset = box.offset_of(tensor.bytes().data(), tensor.bytes().size()))
      end = std::max(end, *offset + tensor.bytes().size());
  for (const auto& [name, tensor] : tensors) {
    const auto bytes = tensor.bytes();
    if (auto offset = box.offset_of(bytes.data(), bytes.size())) {
      described.push_back(describe(name, tensor, *offset));
      continue;
    }
    const std::size_t offset = aligned(end);
    end = offset + bytes.size();
    PW_CHECK(box.grow(end));
    PW_TRY(memory, box.map(end));
    if (!bytes.empty()) std::memcpy(memory.get() + offset, bytes.data(), bytes.size());
    described.push_back(describe(name, tensor, offset));
  }
  return described;
}

Result<Tensors> get_tensors(SharedMemory& box, const Json& described) {
  Tensors tensors;
  try {
    for (const auto& entry : described) {
      const auto dtype = dtype_from(entry.at("dtype").get<std::string>());
      Shape shape = entry.at("shape").get<Shape>();
      const auto offset = entry.at("offset").get<std::size_t>();
      const auto count = element_count(shape);
      if (!dtype || !count) return fail(bad_message("a tensor of an unknown dtype or an impossible shape"));
      const std::size_t bytes = *count * size_of(*dtype);
      if (offset % kAlignment != 0 || offset > PTRDIFF_MAX - bytes)
        return fail(bad_message("a tensor at an impossible offset"));
      PW_TRY(memory, box.map(offset + bytes));
      tensors.push_back(
          {entry.at("name").get<std::string>(), Tensor::view(*dtype, std::move(shape), memory.get() + offset, memory)});
    }
  } catch (const Json::exception& e) {
    return fail(bad_message(std::string("a malformed tensor: ") + e.what()));
  }
  return tensors;
}

}  // namespace portwright
