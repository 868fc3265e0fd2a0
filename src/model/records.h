// `check` and `inspect` of records.md.
#pragma once

#include <vector>

#include "base/json.h"
#include "portwright/model.h"

namespace portwright {

// With the verdict that the findings amount to: invalid_model when one of them is an error.
Json to_json(const std::vector<Finding>& findings);
Json to_json(const ModelSummary& summary);
// SARIF 2.1.0, for code scanning: one result for each finding, at the model's file and the node's name.
Json sarif(const std::vector<Finding>& findings, const std::string& file);

}  // namespace portwright
