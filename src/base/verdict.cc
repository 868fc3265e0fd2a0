#include "portwright/verdict.h"

#include <array>
#include <utility>

namespace portwright {
namespace {

constexpr std::array<std::pair<Verdict, std::string_view>, 11> kWords{{
    {Verdict::passed, "passed"},
    {Verdict::mismatch, "mismatch"},
    {Verdict::vacuous, "vacuous"},
    {Verdict::unsupported, "unsupported"},
    {Verdict::crashed, "crashed"},
    {Verdict::timed_out, "timed_out"},
    {Verdict::out_of_memory, "out_of_memory"},
    {Verdict::invalid_model, "invalid_model"},
    {Verdict::reference_failure, "reference_failure"},
    {Verdict::environment, "environment"},
    {Verdict::not_run, "not_run"},
}};

}  // namespace

std::string_view to_string(Verdict verdict) {
  for (const auto& [value, word] : kWords)
    if (value == verdict) return word;
  return "not_run";
}

Result<Verdict> verdict_from(std::string_view word) {
  for (const auto& [value, name] : kWords)
    if (name == word) return value;
  return fail({Fault::input, "read", "bad_verdict", "'" + std::string(word) + "' is not a verdict word", "", "", ""});
}

Verdict verdict_of(const Error& error) {
  if (auto named = verdict_from(error.code)) return *named;
  if (error.fault == Fault::environment) return Verdict::environment;
  if (error.fault == Fault::input) return Verdict::invalid_model;
  return Verdict::crashed;
}

Verdict worse(Verdict a, Verdict b) {
  const auto rank = [](Verdict v) { return v == Verdict::passed ? 0 : v == Verdict::not_run ? 1 : 2; };
  return rank(b) > rank(a) ? b : a;
}

}  // namespace portwright
