// portwright view: Netron on a model's structure, so that its size does not matter.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "base/files.h"
#include "cli/options.h"
#include "cli/program.h"
#include "engine/torch/source.h"
#include "portwright/model.h"

namespace portwright {
namespace {

struct ViewOptions {
  std::string file;
  int port = 0;
  bool browse = false;
  PythonOptions python;
};

// Standard input becomes these bytes.
Status feed(const std::string& bytes) {
  const int memory = ::memfd_create("portwright-structure", MFD_CLOEXEC);
  std::size_t written = 0;
  while (memory >= 0 && written < bytes.size()) {
    const auto count = ::write(memory, bytes.data() + written, bytes.size() - written);
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  if (memory < 0 || written < bytes.size() || ::lseek(memory, 0, SEEK_SET) != 0 || ::dup2(memory, STDIN_FILENO) < 0)
    return fail(
        {Fault::environment, "view", "out_of_memory", "no memory for the structure", "", std::strerror(errno), ""});
  return {};
}

// Becomes the viewer; comes back only when that is not possible.
Result<ExitCode> view(Console&, const ViewOptions& options) {
  PW_TRY(model, Model::load(options.file));
  PW_TRY(structure, model.structure());
  PW_CHECK(feed(structure));
  const std::string python = find_python(options.python.interpreter);
  const std::string name = std::filesystem::path(options.file).filename().string(), port = std::to_string(options.port);
  std::vector<const char*> command{python.c_str(), "-m", "portwright.view", name.c_str()};
  if (options.port > 0) command.insert(command.end(), {"--port", port.c_str()});
  if (options.browse) command.push_back("--browse");
  command.push_back(nullptr);
  ::setenv("PYTHONPATH", python_path().c_str(), 1);
  ::execvp(python.c_str(), const_cast<char* const*>(command.data()));
  return fail({Fault::environment, "view", "environment", "cannot start " + python + ": " + std::strerror(errno),
               python, "name an interpreter with --python, or run scripts/setup", ""});
}

}  // namespace

void add_view(Program& program) {
  const auto options = std::make_shared<ViewOptions>();
  Verb verb = program.add({"view",
                           "Show a model in Netron, in the browser",
                           {"portwright view model.onnx --browse", "portwright view model.onnx --port 8080"}},
                          [options](Console& console) { return view(console, *options); });
  verb.argument("MODEL", options->file, "An ONNX file");
  verb.option("--port", options->port, "PORT", "Where it is served, on this machine only; 0: any that is free");
  verb.flag("--browse", options->browse, "Open the browser");
  add_options(verb, options->python);
}

}  // namespace portwright
