#include "portwright/bench.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "measure/statistics.h"

namespace portwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRoundSeconds = 0.1;  // what one contestant takes of a round, at least one run
constexpr int kMostRuns = 200;         // in one round
constexpr int kWarmUp = 3;

struct Lane {
  Contestant who;
  Tensors inputs;              // staged
  int runs = 1;                // in a round
  std::vector<double> all;     // milliseconds of each run
  std::vector<double> rounds;  // mean of each round
  std::optional<Error> error;
};

void warm_up(Lane& lane, const Tensors& inputs) {
  auto staged = lane.who.session->stage(inputs);
  auto times = staged ? lane.who.session->time(*staged, kWarmUp) : Result<std::vector<double>>(fail(staged.error()));
  if (!times) {
    lane.error = times.error();
    return;
  }
  lane.inputs = std::move(*staged);
  const double one = std::max(1e-6, *std::min_element(times->begin(), times->end()));
  lane.runs = std::clamp(static_cast<int>(std::ceil(kRoundSeconds / one)), 1, kMostRuns);
}

void run_round(Lane& lane) {
  auto times = lane.who.session->time(lane.inputs, lane.runs);
  if (!times) {
    lane.error = times.error();
    return;
  }
  for (double& value : *times) value *= 1000;
  lane.rounds.push_back(mean(*times));
  lane.all.insert(lane.all.end(), times->begin(), times->end());
}

bool narrow(const Lane& lane, double precision) {
  if (lane.error) return true;
  const Interval interval = confidence(lane.rounds);
  return interval.high - interval.low <= 2 * precision * mean(lane.rounds);
}

BenchEntry entry_of(const Lane& lane, const BenchOptions& options) {
  BenchEntry entry;
  entry.target = lane.who.target;
  entry.load_s = lane.who.session->load_seconds;
  entry.compile_s = lane.who.session->compile_seconds;
  entry.error = lane.error;
  entry.threads = lane.who.session->info().threads;
  entry.runs = lane.all.size();
  entry.peak_memory = lane.who.session->peak_memory();
  if (lane.all.empty()) return entry;
  entry.p50 = percentile(lane.all, 0.5);
  entry.p90 = percentile(lane.all, 0.9);
  entry.p99 = percentile(lane.all, 0.99);
  entry.mean = mean(lane.all);
  entry.ci95 = confidence(lane.rounds);
  entry.throughput = 1000.0 * static_cast<double>(options.items) / entry.mean;
  return entry;
}

// Rounds are paired, so what disturbed the machine in one of them disturbs both sides.
Speedup speedup_of(const Lane& lane, const Lane& baseline) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(lane.rounds.size(), baseline.rounds.size()); ++i)
    ratios.push_back(baseline.rounds[i] / lane.rounds[i]);
  return {lane.who.target, baseline.who.target, percentile(ratios, 0.5), confidence_of_median(ratios)};
}

}  // namespace

Bench bench(const std::vector<Contestant>& contestants, const Tensors& inputs, const BenchOptions& options) {
  const auto start = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  std::vector<Lane> lanes;
  for (const Contestant& contestant : contestants) {
    if (options.progress) options.progress("warming up " + contestant.target);
    lanes.push_back({contestant, {}, 1, {}, {}, {}});
    warm_up(lanes.back(), inputs);
  }
  for (int round = 1;; ++round) {
    if (options.progress) options.progress("round " + std::to_string(round));
    for (Lane& lane : lanes)
      if (!lane.error) run_round(lane);
    if (round < options.min_rounds && elapsed() < 3 * options.max_seconds) continue;
    if (elapsed() >= options.max_seconds) break;
    if (std::all_of(lanes.begin(), lanes.end(), [&](const Lane& lane) { return narrow(lane, options.precision); }))
      break;
  }
  Bench result;
  for (const Lane& lane : lanes) result.targets.push_back(entry_of(lane, options));
  for (std::size_t i = 1; i < lanes.size(); ++i)
    if (!lanes[i].rounds.empty() && !lanes[0].rounds.empty()) result.speedups.push_back(speedup_of(lanes[i], lanes[0]));
  return result;
}

}  // namespace portwright
