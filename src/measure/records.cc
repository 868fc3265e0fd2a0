#include "measure/records.h"

namespace portwright {
namespace {

Json to_json(const Interval& interval) { return Json::array({number(interval.low), number(interval.high)}); }

}  // namespace

Json to_json(const BenchEntry& entry) {
  Json out{{"target", entry.target},
           {"load_s", entry.load_s},
           {"compile_s", entry.compile_s},
           {"latency_ms",
            {{"p50", number(entry.p50)},
             {"p90", number(entry.p90)},
             {"p99", number(entry.p99)},
             {"mean", number(entry.mean)},
             {"ci95", to_json(entry.ci95)}}},
           {"throughput", number(entry.throughput)},
           {"peak_memory", entry.peak_memory},
           {"runs", entry.runs},
           {"threads", entry.threads}};
  if (entry.error) out["error"] = portwright::to_json(*entry.error);
  return out;
}

Json to_json(const Speedup& speedup) {
  return Json{{"target", speedup.target},
              {"baseline", speedup.baseline},
              {"ratio", number(speedup.ratio)},
              {"ci95", to_json(speedup.ci95)}};
}

Json to_json(const Bench& bench) {
  Json out = document("bench");
  out["targets"] = Json::array();
  for (const BenchEntry& entry : bench.targets) out["targets"].push_back(to_json(entry));
  out["speedup"] = Json::array();
  for (const Speedup& speedup : bench.speedups) out["speedup"].push_back(to_json(speedup));
  return out;
}

}  // namespace portwright
