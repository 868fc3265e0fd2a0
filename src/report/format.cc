#include "report/format.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace portwright {
namespace {

std::string nonfinite(double value) { return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf"; }

// Digits behind the point that leave `digits` that matter, never more than needed.
std::string rounded(double value, int digits) {
  const double shown = std::stod(fmt::format("{:.{}e}", value, digits - 1));  // 0.9999 has the magnitude of 1.00
  const int magnitude = shown == 0 ? 0 : static_cast<int>(std::floor(std::log10(std::fabs(shown))));
  return fmt::format("{:.{}f}", value, std::max(0, digits - 1 - magnitude));
}

}  // namespace

std::string format_error(double value) {
  if (!std::isfinite(value)) return nonfinite(value);
  if (value == 0) return "0";
  if (std::fabs(value) < 0.01 || std::fabs(value) >= 1e5) return fmt::format("{:.1e}", value);
  return rounded(value, 2);
}

std::string format_significant(double value) {
  if (!std::isfinite(value)) return nonfinite(value);
  if (value == 0) return "0";
  if (std::fabs(value) < 0.001 || std::fabs(value) >= 1e7) return fmt::format("{:.2e}", value);
  return rounded(value, 3);
}

std::string format_ms(double milliseconds) {
  if (milliseconds >= 1000) return fmt::format("{:.2f} s", milliseconds / 1000);
  return format_significant(milliseconds) + " ms";
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds)) return nonfinite(seconds);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole % 3600 / 60);
}

std::string format_bytes(double bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  return (unit == 0 ? fmt::format("{:.0f}", bytes) : rounded(bytes, 3)) + " " + kUnits[unit];
}

std::string format_count(double count) {
  std::string digits = fmt::format("{:.0f}", count);
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string format_percent(double share) {
  const double percent = share * 100;
  // Just below all is never rounded up to all.
  if (percent > 99.95 && percent < 100) return fmt::format("{:.5g} %", std::floor(percent * 1000 + 1e-6) / 1000);
  return rounded(percent, 3) + " %";
}

std::string format_ratio(double ratio) { return std::isfinite(ratio) ? rounded(ratio, 3) + "x" : nonfinite(ratio); }

std::string plural(std::size_t count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const std::string& word : words) {
    if (!out.empty()) out += separator;
    out += word;
  }
  return out;
}

}  // namespace portwright
