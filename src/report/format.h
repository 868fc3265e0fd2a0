// Numbers as people read them; the same in pages, Markdown and the terminal.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace portwright {

std::string format_error(double value);        // "2.1e-06", "0.31", "0", "nan": two digits that matter
std::string format_significant(double value);  // "0.912", "12.3", "1234": three digits that matter
std::string format_ms(double milliseconds);    // "8.41 ms", "1.20 s"
std::string format_seconds(double seconds);    // "0.4 s", "12.1 s", "3 min 12 s"
std::string format_bytes(double bytes);        // "44.7 MB" (powers of 1000)
std::string format_count(double count);        // "11,689,512"
std::string format_percent(double share);      // "99.6 %"
std::string format_ratio(double ratio);        // "1.84x"

// "a, b, c"
std::string joined(const std::vector<std::string>& words, std::string_view separator = ", ");

// "1 node", "2 nodes".
std::string plural(std::size_t count, std::string_view word);

// "-" for what was not measured.
template <class Format>
std::string or_dash(const std::optional<double>& value, Format format) {
  return value ? format(*value) : std::string("-");
}

}  // namespace portwright
