#pragma once

#include <memory>

#include "portwright/engine.h"

namespace portwright {

std::unique_ptr<Engine> make_tensorrt();

}  // namespace portwright
