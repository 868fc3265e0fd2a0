#include "cli/table.h"

#include <algorithm>

namespace portwright {
namespace {

// Columns that a text takes: code points, without counting UTF-8's continuation bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace

Table::Table(std::vector<std::string> columns) : columns_(std::move(columns)) {
  for (std::string& column : columns_) {
    right_.push_back(column.starts_with('#'));
    if (right_.back()) column.erase(0, 1);
  }
}

void Table::add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }

std::string Table::text(const Console& console, std::size_t indent) const {
  std::vector<std::vector<Cell>> all = rows_;
  if (!columns_.empty()) {
    std::vector<Cell> head;
    for (const std::string& column : columns_) head.emplace_back(column, Tone::faint);
    all.insert(all.begin(), std::move(head));
  }
  std::vector<std::size_t> widths;
  for (const auto& row : all)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (i == widths.size()) widths.push_back(0);
      widths[i] = std::max(widths[i], width(row[i].text));
    }
  std::string out;
  for (const auto& row : all) {
    out.append(indent, ' ');
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::size_t pad = widths[i] - width(row[i].text);
      const bool right = i < right_.size() && right_[i];
      if (i > 0) out.append(2, ' ');
      if (right) out.append(pad, ' ');
      out += console.paint(row[i].tone, row[i].text);
      if (!right && i + 1 < row.size()) out.append(pad, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace portwright
