// Patterns of names, with * and ?.
#pragma once

#include <fnmatch.h>

#include <string>
#include <string_view>

namespace portwright {

// A name matches itself whatever characters it has.
inline bool glob_match(const std::string& pattern, std::string_view name) {
  return name == pattern || ::fnmatch(pattern.c_str(), std::string(name).c_str(), 0) == 0;
}

}  // namespace portwright
