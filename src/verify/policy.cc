#include <algorithm>
#include <array>
#include <string_view>

#include "portwright/compare.h"

namespace portwright {
namespace {

struct Row {
  std::string_view precision;
  double rtol, atol;
};

// The one table of tolerances. At reduced precision they are a first look: the drift ratio of validate decides there.
constexpr std::array<Row, 5> kTable{{
    // 24-bit mantissa, rounding 6e-8. Two right programs that sum in another order differ by that times the square root
    // of the length and once for each layer: 1e-6 to 1e-5 in networks of a hundred layers. 1e-3 is a hundred times as
    // much and still far below what a wrong attribute, layout or epsilon does.
    {"fp32", 1e-3, 1e-3},
    // 11-bit mantissa, rounding 5e-4 at every operator; a hundred of them add up to ten times that.
    {"fp16", 1e-2, 1e-2},
    // As fp16 in the mantissa, at matrix products only.
    {"tf32", 1e-2, 1e-2},
    // 8-bit mantissa, rounding 4e-3 at every operator: eight times fp16's.
    {"bf16", 5e-2, 5e-2},
    // 256 steps over the range of a tensor: half a step is 2e-3 of the range, 4e-3 to 4e-2 of a typical value, in
    // each layer.
    {"int8", 1e-1, 1e-1},
}};

}  // namespace

Policy policy_for(const std::string& precision) {
  const auto row = std::find_if(kTable.begin(), kTable.end(), [&](const Row& r) { return r.precision == precision; });
  const Row& used = row == kTable.end() ? kTable.front() : *row;
  return {used.rtol, used.atol, precision};
}

}  // namespace portwright
