#include "cli/records.h"

#include <sstream>

#include "base/files.h"

namespace portwright {

Result<std::vector<Json>> read_json_lines(const std::filesystem::path& file) {
  std::vector<Json> values;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return values;
  PW_TRY(text, read_text(file));
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) continue;
    PW_TRY(value, parse_json(line, file));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace portwright
