// SHA-256 digests, written "sha256:<hex>".
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

std::string digest(std::span<const std::byte> bytes);
std::string digest(std::string_view text);
Result<std::string> digest_file(const std::filesystem::path& file);  // streamed

// Names, dtypes, shapes and values of all tensors, in order.
std::string digest(const Tensors& tensors);

}  // namespace portwright
