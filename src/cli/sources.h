// The PyTorch side for verbs that are not a whole port: open a source, and export it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cli/options.h"
#include "cli/progress.h"
#include "engine/torch/source.h"

namespace portwright {

// Options of the verbs that take a SOURCE.
struct SourceVerbOptions {
  std::string source;
  InputOptions inputs;
  ExportOptions exporting;
  PythonOptions python;
  IsolationOptions isolation;
};
void add_options(Verb& verb, SourceVerbOptions& options);
Result<SourceOptions> source_options(const SourceVerbOptions& options);

struct Exported {
  std::unique_ptr<Source> source;
  ExportResult result;
  Tensors inputs;  // at the example's size
};
// Opens the source and writes `file`.
Result<Exported> export_source(const SourceOptions& source, const ExportOptions& exporting,
                               const std::filesystem::path& file, Progress& progress);

}  // namespace portwright
