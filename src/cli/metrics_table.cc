#include "cli/metrics_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/table.h"
#include "report/format.h"

namespace portwright {
namespace {

std::string out_of_tolerance(const OutputMetrics& metrics) {
  if (metrics.count == 0 || metrics.out_of_tolerance == 0) return "0";
  return format_percent(static_cast<double>(metrics.out_of_tolerance) / static_cast<double>(metrics.count));
}

bool measured(const OutputMetrics& metrics) { return metrics.count > 0 && metrics.shape == metrics.reference_shape; }

std::string number(const OutputMetrics& metrics, double value) {
  return measured(metrics) ? format_error(value) : std::string("-");
}

// What keeps an output from passing, in words.
std::string explanation(const OutputMetrics& m) {
  if (m.reason == "missing") return "missing in the actual outputs";
  if (m.reason == "unexpected") return "not in the reference";
  if (m.reason == "dtype")
    return fmt::format("dtype {}, reference {}", to_string(m.dtype), to_string(m.reference_dtype));
  if (m.reason == "shape")
    return fmt::format("shape {}, reference {}", to_string(m.shape), to_string(m.reference_shape));
  std::string out = m.reason;
  if (m.nonfinite_actual + m.nonfinite_reference > 0)
    out += fmt::format("; {} NaN or Inf, reference {}", m.nonfinite_actual, m.nonfinite_reference);
  if (!m.worst_index.empty() || m.count == 1)
    out += fmt::format("; worst at {}: {}, reference {}", to_string(m.worst_index), format_significant(m.worst_actual),
                       format_significant(m.worst_reference));
  return out;
}

std::vector<Cell> row(const OutputMetrics& m) {
  const std::string verdict(to_string(m.verdict));
  return {{m.name, Tone::strong},
          {verdict, tone_of(verdict)},
          number(m, m.max_abs),
          number(m, m.max_rel),
          number(m, m.mean_abs),
          number(m, m.rmse),
          measured(m) ? fmt::format("{:.7f}", m.cosine) : "-",
          measured(m) ? fmt::format("{:.1f}", m.snr_db) : "-",
          measured(m) ? out_of_tolerance(m) : "-",
          m.top1_agreement ? format_percent(*m.top1_agreement) : "-"};
}

}  // namespace

std::string metrics_table(const Console& console, const std::vector<Labelled>& comparisons) {
  std::vector<std::string> columns{"output", "verdict", "#max abs", "#max rel",     "#mean abs",
                                   "#rmse",  "#cosine", "#snr dB",  "#out of tol.", "#top-1"};
  const bool labels =
      std::any_of(comparisons.begin(), comparisons.end(), [](const Labelled& c) { return !c.label.empty(); });
  if (labels) columns.insert(columns.begin(), "size");
  Table table(columns);
  std::string notes;
  for (const auto& [label, comparison] : comparisons)
    for (const OutputMetrics& m : comparison->outputs) {
      std::vector<Cell> cells = row(m);
      if (labels) cells.insert(cells.begin(), Cell(label));
      table.add(std::move(cells));
      if (m.verdict != Verdict::passed)
        notes += (labels ? label + ", " : "") + console.paint(Tone::strong, m.name) + ": " + explanation(m) + "\n";
    }
  return (table.empty() ? "" : table.text(console)) + notes;
}

std::string verdict_line(const Console& console, Verdict verdict, const std::string& why) {
  const std::string word(to_string(verdict));
  return console.paint(tone_of(word), word) + (why.empty() ? "" : ": " + why) + "\n";
}

}  // namespace portwright
