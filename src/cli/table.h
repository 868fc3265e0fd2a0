// Columns of text for the terminal.
#pragma once

#include <string>
#include <vector>

#include "cli/console.h"

namespace portwright {

struct Cell {
  Cell(std::string shown, Tone in = Tone::plain) : text(std::move(shown)), tone(in) {}
  Cell(const char* shown) : text(shown) {}
  std::string text;
  Tone tone = Tone::plain;
};

// Columns whose name starts with '#' are aligned to the right. An empty list of columns gives no head.
class Table {
 public:
  explicit Table(std::vector<std::string> columns);
  void add(std::vector<Cell> row);
  bool empty() const { return rows_.empty(); }
  std::string text(const Console& console, std::size_t indent = 0) const;

 private:
  std::vector<std::string> columns_;
  std::vector<bool> right_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace portwright
