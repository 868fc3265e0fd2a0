// Files: atomic writes, mappings, locks. Every error names the file.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "portwright/result.h"

namespace portwright {

// Whole file as text. Errors (Fault::input): no_such_file, cannot_read, too_large (over `max_bytes`).
Result<std::string> read_text(const std::filesystem::path& file, std::size_t max_bytes = std::size_t{1} << 30);

// Temporary file in the same folder, then rename: a reader sees all of it or nothing. A file that is replaced is on the
// disk before its predecessor goes, so that even a power cut leaves one of the two; a new file is left to the kernel
// to write out. Errors (Fault::environment): cannot_write.
Status write_atomically(const std::filesystem::path& file, std::string_view bytes);

// The same for streaming: `fill` writes into a file descriptor of the temporary file; its failure leaves nothing
// behind.
Status write_atomically(const std::filesystem::path& file, const std::function<Status(int fd)>& fill);

// write(2) until all is written. `file` only names the target in the error.
Status write_all(int fd, std::span<const std::byte> bytes, const std::filesystem::path& file);

// Error for a failed system call on a file, from errno: cannot_read or cannot_write with the reason and a hint.
Error file_error(std::string stage, std::string code, const std::filesystem::path& file, int error_number);

Status make_folders(const std::filesystem::path& folder);

// A read-only mapping of a whole file; unmapped by the last owner. Pages are read when they are touched.
class Mapping {
 public:
  static Result<std::shared_ptr<const Mapping>> open(const std::filesystem::path& file);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  Mapping(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_;
  std::size_t size_;
};

// An exclusive lock on a folder, held until destroyed (also when the process dies).
class FolderLock {
 public:
  // Error (Fault::usage): locked, when another process holds it.
  static Result<FolderLock> take(const std::filesystem::path& folder);
  FolderLock(FolderLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FolderLock& operator=(FolderLock&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FolderLock();

 private:
  explicit FolderLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

// A folder that is removed with everything in it when it goes out of scope.
class ScratchFolder {
 public:
  static Result<ScratchFolder> make(std::string_view prefix);
  ScratchFolder(ScratchFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  ScratchFolder& operator=(ScratchFolder&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }
  ~ScratchFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit ScratchFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace portwright
