// `compare` of records.md, there and back.
#pragma once

#include "base/json.h"
#include "portwright/compare.h"

namespace portwright {

// {verdict, policy, outputs}: what stands under `metrics` in other records. A document of its own also needs the head
// that document("compare") makes.
Json to_json(const Comparison& comparison);

// What to_json() wrote; fields that are absent or of another type keep their defaults.
Comparison comparison_from(const Json& value);

}  // namespace portwright
