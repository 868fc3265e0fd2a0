// The bytes of one try as a file, for that is what models are loaded from.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace portwright::fuzz {

// The same file in memory each time, overwritten.
inline std::filesystem::path file_with(const std::uint8_t* data, std::size_t size) {
  static const std::filesystem::path path = [] {
    const std::filesystem::path folder = "/dev/shm/portwright-fuzz-" + std::to_string(::getpid());
    std::filesystem::create_directories(folder);
    return folder / "model.onnx";
  }();
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (file < 0 || ::write(file, data, size) != static_cast<::ssize_t>(size)) std::abort();
  ::close(file);
  return path;
}

}  // namespace portwright::fuzz
