// Runs a Python script of tests/ with the project's interpreter: NumPy as the independent second opinion.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

namespace portwright {

// `script` is relative to tests/. Fails the test, showing the script's output, unless it ends with 0; gives the output.
// Arguments are plain words and paths without quotes.
inline std::string run_python(const std::string& script, const std::vector<std::string>& arguments) {
  const std::filesystem::path root = PORTWRIGHT_SOURCE_DIR;
  std::string command =
      fmt::format("'{}' '{}'", (root / ".venv/bin/python").string(), (root / "tests" / script).string());
  for (const auto& argument : arguments) command += fmt::format(" '{}'", argument);
  command += " 2>&1";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) {
    ADD_FAILURE() << "cannot start " << command;
    return "";
  }
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t n; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.append(buffer.data(), n);
  EXPECT_EQ(::pclose(pipe), 0) << command << ":\n" << output;
  return output;
}

}  // namespace portwright
