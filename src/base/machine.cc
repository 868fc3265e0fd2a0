#include "base/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace portwright {
namespace {

constexpr const char* kFeatures[] = {"avx",         "f16c",        "fma",         "avx2",     "avx_vnni", "avx512f",
                                     "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
                                     "amx_fp16",    "asimd",       "asimdhp",     "bf16",     "i8mm",     "sve"};

std::string value_of(const std::string& line) {
  const auto colon = line.find(": ");
  return colon == std::string::npos ? "" : line.substr(colon + 2);
}

std::vector<std::string> known_features(const std::string& flags) {
  std::istringstream words(flags);
  std::vector<std::string> all{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> known;
  for (const char* feature : kFeatures)
    if (std::find(all.begin(), all.end(), feature) != all.end()) known.emplace_back(feature);
  return known;
}

}  // namespace

Machine this_machine() {
  Machine machine;
  machine.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  machine.memory_bytes =
      static_cast<std::size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  utsname names{};
  if (::uname(&names) == 0) machine.system = std::string(names.sysname) + " " + names.release + " " + names.machine;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line) && (machine.cpu.empty() || machine.cpu_features.empty());) {
    if (line.starts_with("model name")) machine.cpu = value_of(line);
    if (line.starts_with("flags") || line.starts_with("Features"))
      machine.cpu_features = known_features(value_of(line));
  }
  return machine;
}

Json to_json(const Machine& machine) {
  return Json{{"cpu", machine.cpu},
              {"cpu_features", machine.cpu_features},
              {"cores", machine.cores},
              {"memory_bytes", machine.memory_bytes},
              {"system", machine.system}};
}

}  // namespace portwright
