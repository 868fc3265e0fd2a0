// `simplify` of records.md.
#pragma once

#include "base/json.h"
#include "portwright/simplify.h"

namespace portwright {

Json to_json(const Proof& proof);
Json to_json(const Simplification& done);  // without the verdict and what concerns files

}  // namespace portwright
