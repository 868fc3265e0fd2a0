// What this machine is, as far as results and timings depend on it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/json.h"

namespace portwright {

struct Machine {
  std::string cpu;  // "AMD EPYC 7763"
  std::vector<std::string>
      cpu_features;  // those that change kernels or precision: avx2, avx512f, avx512_vnni, amx_bf16, ...
  int cores = 1;
  std::size_t memory_bytes = 0;
  std::string system;  // "Linux 6.1 x86_64"
};
Machine this_machine();
Json to_json(const Machine& machine);

}  // namespace portwright
