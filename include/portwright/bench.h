// Time and memory of several targets, side by side in interleaved rounds (A B C A B C).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "portwright/engine.h"

namespace portwright {

struct BenchOptions {
  double max_seconds = 20;  // for all targets together, warm-up included
  double precision = 0.03;  // stop early when every 95 % interval is narrower than this share of its mean
  int min_rounds = 6;       // fewer have no interval of the median
  int threads = 0;          // recorded; sessions are already compiled with it
  std::int64_t items = 1;   // items of one run (the batch), for throughput
  std::function<void(const std::string&)> progress;
};

struct Interval {
  double low = 0, high = 0;
};
struct BenchEntry {
  std::string target;
  double load_s = 0, compile_s = 0;
  double p50 = 0, p90 = 0, p99 = 0, mean = 0;  // milliseconds of one run
  Interval ci95;                               // of the mean, from the means of rounds (Student's t)
  double throughput = 0;                       // items a second, from the mean
  std::size_t peak_memory = 0;                 // bytes resident at most of the target's process
  std::size_t runs = 0;
  int threads = 0;
  std::optional<Error> error;
};
struct Speedup {
  std::string target, baseline;
  double ratio = 1;  // baseline time / target time, median over paired rounds
  Interval ci95;     // of that median, from order statistics
};
struct Bench {
  std::vector<BenchEntry> targets;
  std::vector<Speedup> speedups;
};

struct Contestant {
  std::string target;
  Session* session;
};
// The first contestant is the baseline of all speed-ups.
Bench bench(const std::vector<Contestant>& contestants, const Tensors& inputs, const BenchOptions& options);

}  // namespace portwright
