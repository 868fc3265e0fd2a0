// Files of a run folder as the verbs read them.
#pragma once

#include <filesystem>
#include <vector>

#include "base/json.h"

namespace portwright {

// One JSON value a line; no lines when there is no such file.
Result<std::vector<Json>> read_json_lines(const std::filesystem::path& file);

}  // namespace portwright
