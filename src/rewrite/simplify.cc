// The driver: rounds of passes to a fixed point, the proof, and the search for a pass that breaks it.
#include "portwright/simplify.h"

#include <algorithm>
#include <chrono>

#include "rewrite/pass.h"

namespace portwright {
namespace {

constexpr int kMostRounds = 20;

using Clock = std::chrono::steady_clock;

void add_to(std::vector<PassReport>& reports, const char* name, double seconds, std::vector<std::string> details) {
  auto found = std::find_if(reports.begin(), reports.end(), [&](const PassReport& one) { return one.name == name; });
  if (found == reports.end()) found = reports.insert(reports.end(), {name, 0, 0, {}});
  found->changes += details.size();
  found->seconds += seconds;
  std::move(details.begin(), details.end(), std::back_inserter(found->details));
}

// One try, without the passes named.
Result<Simplification> rewritten(const Model& model, const SimplifyOptions& options,
                                 const std::set<std::string>& without) {
  Graph graph(model);
  Rewriting rewriting(options);
  Simplification out{model, graph.node_count(), 0, model.weight_bytes(), 0, {}, {}, {}};
  for (int round = 0; round < kMostRounds; ++round) {
    if (options.progress) options.progress(fmt::format("round {}: {} nodes", round + 1, graph.node_count()));
    graph.infer();
    std::size_t changes = 0;
    for (const Pass& pass : all_passes()) {
      if (without.contains(pass.name)) continue;
      const auto start = Clock::now();
      PW_CHECK(pass.run(graph, rewriting));
      auto details = rewriting.take();
      changes += details.size();
      add_to(out.passes, pass.name, std::chrono::duration<double>(Clock::now() - start).count(), std::move(details));
    }
    if (changes == 0) break;
  }
  out.nodes_after = graph.node_count();
  out.model = graph.model();
  out.bytes_after = out.model.weight_bytes();
  return out;
}

// Judges a result: its shapes must work out where those of the original do, and then what options.prove says. nullopt
// when nothing speaks against it and nobody asked for a proof.
class Judge {
 public:
  Judge(const Model& model, const SimplifyOptions& options) : model_(model), options_(options) {}

  Result<std::optional<Proof>> operator()(const Model& result) const {
    const auto problems = result.shape_problems();
    if (!problems.empty() && problems.size() > model_.shape_problems().size())
      return Proof{Verdict::invalid_model, 0, 0, problems.front()};
    if (!options_.prove) return std::optional<Proof>();
    if (options_.progress) options_.progress("proving");
    return options_.prove(model_, result);
  }

 private:
  const Model& model_;
  const SimplifyOptions& options_;
};

bool holds(const std::optional<Proof>& proof) { return !proof || proof->verdict == Verdict::passed; }

// The first pass, in order, with which the proof fails, when all before it are on and all behind it are off. Empty when
// no pass has changed anything.
Result<std::string> guilty_pass(const Model& model, const SimplifyOptions& options, const Judge& judge,
                                const std::set<std::string>& without, const std::vector<PassReport>& reports) {
  std::vector<std::string> suspects;
  for (const PassReport& report : reports)
    if (report.changes > 0) suspects.push_back(report.name);
  const auto fails_with = [&](std::size_t count) -> Result<bool> {
    auto fewer = without;
    fewer.insert(suspects.begin() + static_cast<std::ptrdiff_t>(count), suspects.end());
    PW_TRY(tried, rewritten(model, options, fewer));
    PW_TRY(proof, judge(tried.model));
    return !holds(proof);
  };
  std::size_t good = 0, bad = suspects.size();
  while (good + 1 < bad) {
    const std::size_t middle = (good + bad) / 2;
    if (options.progress)
      options.progress("looking for the pass that changes results: up to '" + suspects[middle - 1] + "'");
    PW_TRY(fails, fails_with(middle));
    (fails ? bad : good) = middle;
  }
  return suspects.empty() ? std::string() : suspects[bad - 1];
}

// An If whose condition folding has made a constant is inlined by engines themselves, so where inlining is wrong the
// condition must stay computed.
std::vector<std::string> with_accomplices(const std::string& guilty) {
  if (guilty == "branches") return {"branches", "fold-shapes", "fold"};
  return {guilty};
}

// The passes that `names` leave out; "all" is every one.
Result<std::set<std::string>> left_out(const std::set<std::string>& names) {
  std::set<std::string> known;
  for (const Pass& pass : all_passes()) known.insert(pass.name);
  if (names.contains("all")) return known;
  for (const std::string& name : names)
    if (!known.contains(name))
      return fail({Fault::usage, "simplify", "bad_pass", "there is no pass '" + name + "'", name,
                   fmt::format("the passes are {}", fmt::join(known, ", ")), ""});
  return names;
}

}  // namespace

std::vector<PassInfo> simplify_passes() {
  std::vector<PassInfo> out;
  for (const Pass& pass : all_passes()) out.push_back({pass.name, pass.summary});
  return out;
}

Result<Simplification> simplify(const Model& model, const SimplifyOptions& options) {
  PW_TRY(without, left_out(options.without));
  const Judge judge(model, options);
  std::vector<std::string> excluded;
  for (;;) {
    PW_TRY(out, rewritten(model, options, without));
    out.excluded_passes = excluded;
    PW_TRY(proof, judge(out.model));
    out.proof = proof;
    if (holds(proof) || proof->verdict == Verdict::not_run) return std::move(out);
    PW_TRY(guilty, guilty_pass(model, options, judge, without, out.passes));
    if (guilty.empty()) {  // nothing was changed: the model itself cannot be run twice with one result
      out.model = model;
      return std::move(out);
    }
    for (const std::string& pass : with_accomplices(guilty)) {
      if (!without.insert(pass).second) continue;
      excluded.push_back(pass);
    }
  }
}

}  // namespace portwright
