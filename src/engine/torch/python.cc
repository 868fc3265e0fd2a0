#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/process.h"
#include "engine/torch/source.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool executable(const fs::path& file) { return ::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file); }

// The clone that the program was built in: build/portwright lies one folder below it.
fs::path clone_folder() { return own_program().parent_path().parent_path(); }

}  // namespace

std::string find_python(const std::string& asked) {
  if (!asked.empty()) return asked;
  if (auto named = variable("PORTWRIGHT_PYTHON"); !named.empty()) return named;
  if (auto active = variable("VIRTUAL_ENV"); !active.empty() && executable(fs::path(active) / "bin/python"))
    return (fs::path(active) / "bin/python").string();
  std::error_code ignored;
  for (const fs::path& folder : {fs::current_path(ignored), clone_folder()})
    if (executable(folder / ".venv/bin/python")) return (folder / ".venv/bin/python").string();
  return "python3";
}

std::string python_path() {
  std::string path = (clone_folder() / "python").string();
  if (const auto users = variable("PYTHONPATH"); !users.empty()) path += ":" + users;
  return path;
}

}  // namespace portwright
