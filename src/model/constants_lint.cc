// Findings about constants that need their bytes: kept twice, or wider than engines take.
#include <algorithm>
#include <limits>
#include <map>

#include "model/lint.h"
#include "portwright/graph.h"

namespace portwright {
namespace {

// Slices end at these where they mean "to the end", and every engine knows that.
bool is_open_end(std::int64_t value) {
  return value == std::numeric_limits<std::int64_t>::max() || value <= -std::numeric_limits<std::int64_t>::max();
}

bool beyond_int32(std::int64_t value) {
  return value > std::numeric_limits<std::int32_t>::max() || value < std::numeric_limits<std::int32_t>::min();
}

void check_width(const Graph& graph, ValueId value, std::vector<Finding>& out) {
  if (graph.dtype(value) != Dtype::i64) return;
  const auto tensor = graph.constant(value);
  if (!tensor) return;
  const auto numbers = tensor->as<std::int64_t>();
  const auto wide =
      std::find_if(numbers.begin(), numbers.end(), [](auto one) { return beyond_int32(one) && !is_open_end(one); });
  if (wide == numbers.end()) return;
  out.push_back({Severity::warning, "int64_beyond_int32", graph.name(value),
                 "initializer '" + graph.name(value) + "' holds " + std::to_string(*wide) + ", which no int32 holds",
                 "values from -2147483648 to 2147483647", std::to_string(*wide),
                 "engines that compute in int32 clamp or refuse it: use a smaller sentinel"});
}

// Those of kLargeTensor bytes and more; small ones cost nothing.
void check_duplicates(const Graph& graph, const std::vector<ValueId>& constants, std::vector<Finding>& out) {
  std::map<std::string, std::vector<ValueId>> alike;
  for (const ValueId value : constants) {
    if (graph.constant_bytes(value) < kLargeTensor) continue;
    const auto key = graph.sample(value);
    if (!key) continue;
    auto& known = alike[*key];
    const auto twin = std::find_if(known.begin(), known.end(),
                                   [&](ValueId other) { return graph.same_constant(value, other).value_or(false); });
    if (twin == known.end()) {
      known.push_back(value);
      continue;
    }
    out.push_back({Severity::note, "duplicate_initializer", graph.name(value),
                   "initializers '" + graph.name(*twin) + "' and '" + graph.name(value) + "' hold the same " +
                       std::to_string(graph.constant_bytes(value)) + " bytes",
                   "", "", "simplify the model"});
  }
}

}  // namespace

std::vector<Finding> lint_constants(const Model& model) {
  const Graph graph(model);
  std::vector<Finding> out;
  const auto constants = graph.constants();
  for (const ValueId value : constants) check_width(graph, value, out);
  check_duplicates(graph, constants, out);
  return out;
}

}  // namespace portwright
