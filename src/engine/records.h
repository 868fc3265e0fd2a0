// Engine values as JSON: for the worker protocol and for engine.json.
#pragma once

#include "base/json.h"
#include "portwright/engine.h"

namespace portwright {

Json to_json(const EngineInfo& info);
EngineInfo engine_info_from(const Json& value);

Json to_json(const std::vector<ValueInfo>& values);
std::vector<ValueInfo> value_infos_from(const Json& value);

Json to_json(const CompileOptions& options);
CompileOptions compile_options_from(const Json& value);

// engine.json of records.md, for the folder of a compiled engine.
Json engine_document(const EngineInfo& info, const std::string& model_digest, const std::string& file);

// What keeps an engine saved as `saved` (engine.json) from being used by an engine of this name and version on this
// machine. Error code engine_mismatch names each difference.
Status check_portable(const Json& saved, const std::string& version, const std::filesystem::path& folder);

}  // namespace portwright
