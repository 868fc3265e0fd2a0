// JSON values and the conventions of every record (records.md): schema line, and NaN and Inf as strings.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

using Json = nlohmann::ordered_json;

// {"schema": "portwright/<kind>/1", "portwright": "<version>"}: the head of every document.
Json document(std::string_view kind);

// A number, or "nan", "inf", "-inf"; and back.
Json number(double value);
double number_from(const Json& value);

Json to_json(const Error& error);
Error error_from(const Json& value);

// Errors (Fault::input): not_json with line and column; and those of read_text().
Result<Json> read_json(const std::filesystem::path& file);
Status write_json(const std::filesystem::path& file, const Json& value);  // indented, atomic
Result<Json> parse_json(std::string_view text, const std::filesystem::path& where);

}  // namespace portwright
