// `bench` of records.md.
#pragma once

#include "base/json.h"
#include "portwright/bench.h"

namespace portwright {

Json to_json(const BenchEntry& entry);
Json to_json(const Speedup& speedup);
Json to_json(const Bench& bench);

}  // namespace portwright
