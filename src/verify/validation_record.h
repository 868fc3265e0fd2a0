// `validate` of records.md.
#pragma once

#include "base/json.h"
#include "portwright/validate.h"

namespace portwright {

Json to_json(const Validation& validation);

}  // namespace portwright
