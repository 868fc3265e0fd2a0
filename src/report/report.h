// A run folder's record told to people and to continuous integration. Pure functions of port.json and issues.jsonl
// (docs: records); a field that is absent is left out of the page, never an error.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"

namespace portwright {

// One self-contained page: no network, scripts and charts inside.
std::string html(const Json& port, const std::vector<Json>& issues);
std::string markdown(const Json& port, const std::vector<Json>& issues);
// JUnit XML as CI servers read it: one suite a target, one case a size; steps are a suite of their own.
std::string junit(const Json& port, const std::vector<Json>& issues);

}  // namespace portwright
