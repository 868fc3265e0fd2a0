#include "base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace portwright {
namespace fs = std::filesystem;

Error file_error(std::string stage, std::string code, const fs::path& file, int error_number) {
  const bool writing = code == "cannot_write";
  Error error{
      writing ? Fault::environment : Fault::input, std::move(stage), std::move(code), "", file.string(), "", ""};
  error.message =
      std::string(writing ? "cannot write " : "cannot read ") + file.string() + ": " + std::strerror(error_number);
  if (error_number == ENOENT && !writing) {
    error.code = "no_such_file";
    error.message = "no such file: " + file.string();
    error.hint = "check the path";
  } else if (error_number == EISDIR) {
    error.hint = "this is a folder; name a file";
  } else if (error_number == ENOSPC) {
    error.hint = "the disk is full: free some space or write elsewhere";
  } else if (error_number == EROFS || error_number == EACCES || error_number == EPERM) {
    error.hint = writing ? "the folder is read-only for you: write elsewhere or change its permissions"
                         : "check the permissions";
  } else if (error_number == ENOTDIR) {
    error.hint = "a part of the path is a file, not a folder";
  }
  return error;
}

namespace {

struct Descriptor {
  int fd = -1;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

Result<std::string> read_text(const fs::path& file, std::size_t max_bytes) {
  Descriptor d{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (d.fd < 0) return fail(file_error("read", "cannot_read", file, errno));
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(d.fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(file_error("read", "cannot_read", file, errno));
    if (n == 0) return text;
    text.append(buffer, static_cast<std::size_t>(n));
    if (text.size() > max_bytes)
      return fail({Fault::input, "read", "too_large",
                   file.string() + " has more than " + std::to_string(max_bytes) + " bytes", file.string(), "", ""});
  }
}

Status write_all(int fd, std::span<const std::byte> bytes, const fs::path& file) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(file_error("write", "cannot_write", file, errno));
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Status write_atomically(const fs::path& file, const std::function<Status(int fd)>& fill) {
  std::string scratch = file.string() + ".XXXXXX";
  Descriptor d{::mkostemp(scratch.data(), O_CLOEXEC)};
  if (d.fd < 0) return fail(file_error("write", "cannot_write", file, errno));
  const auto give_up = [&](Error error) {
    ::unlink(scratch.c_str());
    return fail(std::move(error));
  };
  if (auto filled = fill(d.fd); !filled) return give_up(filled.error());
  ::fchmod(d.fd, 0644);
  const bool replaces = ::access(file.c_str(), F_OK) == 0;
  if (replaces && ::fsync(d.fd) != 0 && errno != EINVAL)
    return give_up(file_error("write", "cannot_write", file, errno));
  if (::rename(scratch.c_str(), file.c_str()) != 0) return give_up(file_error("write", "cannot_write", file, errno));
  return {};
}

Status write_atomically(const fs::path& file, std::string_view bytes) {
  return write_atomically(file, [&](int fd) { return write_all(fd, std::as_bytes(std::span(bytes)), file); });
}

Status make_folders(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return fail(file_error("write", "cannot_write", folder, code.value()));
  if (!fs::is_directory(folder)) return fail(file_error("write", "cannot_write", folder, ENOTDIR));
  return {};
}

Result<std::shared_ptr<const Mapping>> Mapping::open(const fs::path& file) {
  Descriptor d{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) return fail(file_error("read", "cannot_read", file, errno));
  struct stat info {};
  if (::fstat(d.fd, &info) != 0) return fail(file_error("read", "cannot_read", file, errno));
  if (S_ISDIR(info.st_mode)) return fail(file_error("read", "cannot_read", file, EISDIR));
  if (!S_ISREG(info.st_mode)) return fail(file_error("read", "cannot_read", file, EINVAL));
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return std::shared_ptr<const Mapping>(new Mapping(nullptr, 0));
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, d.fd, 0);
  if (data == MAP_FAILED) return fail(file_error("read", "cannot_read", file, errno));
  return std::shared_ptr<const Mapping>(new Mapping(static_cast<const std::byte*>(data), size));
}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

Result<FolderLock> FolderLock::take(const fs::path& folder) {
  const fs::path file = folder / ".lock";
  const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return fail(file_error("write", "cannot_write", file, errno));
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return fail({Fault::usage, "write", "locked", folder.string() + " is in use by another portwright process",
                 folder.string(), "wait for it to end, or write into another folder", ""});
  }
  return FolderLock(fd);
}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<ScratchFolder> ScratchFolder::make(std::string_view prefix) {
  std::error_code code;
  const fs::path base = fs::temp_directory_path(code);
  std::string name = ((code ? fs::path("/tmp") : base) / (std::string(prefix) + "XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) return fail(file_error("write", "cannot_write", name, errno));
  return ScratchFolder(name);
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

}  // namespace portwright
