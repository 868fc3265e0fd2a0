// torch:eager and torch:compile: the original module as an engine, in a Python worker of its own.
#pragma once

#include <memory>

#include "engine/torch/source.h"
#include "portwright/engine.h"

namespace portwright {

Result<std::unique_ptr<Session>> open_torch(const SourceOptions& source, const Target& target, int threads);

}  // namespace portwright
