#include "cli/help.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <sstream>

#include <algorithm>

namespace portwright {
namespace {

constexpr std::size_t kWidth = 100;

// Words of `text` in lines, each line after the first indented.
std::string wrapped(const std::string& text, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (column + (end - at) > kWidth && column > indent) {
      out += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (at > 0) {
      out += ' ';
      ++column;
    }
    out += text.substr(at, end - at);
    column += end - at;
    at = end + 1;
  }
  return out;
}

std::string entry(const std::string& left, const std::string& right, std::size_t column) {
  std::string out = "  " + left;
  if (left.size() + 4 > column)
    out += "\n" + std::string(column, ' ');
  else
    out.append(column - 2 - left.size(), ' ');
  return out + wrapped(right, column) + "\n";
}

std::string entries(const std::string& title, const std::vector<std::pair<std::string, std::string>>& all) {
  if (all.empty()) return "";
  std::size_t column = 0;
  for (const auto& [left, right] : all) column = std::max(column, std::min<std::size_t>(left.size() + 4, 34));
  std::string out = "\n" + title + ":\n";
  for (const auto& [left, right] : all) out += entry(left, right, column);
  return out;
}

bool repeatable(const CLI::Option& option) { return option.get_expected_max() > 1; }

std::string value_name(const CLI::Option& option) { return option.get_type_name(); }

std::string option_name(const CLI::Option& option) {
  std::string names;
  for (const auto& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const auto& name : option.get_lnames()) names += (names.empty() ? "    --" : ", --") + name;
  return names + (takes_value(option) ? " " + value_name(option) : "");
}

std::string description(const CLI::Option& option) {
  const std::string preset = takes_value(option) ? option.get_default_str() : "";
  return option.get_description() + (preset.empty() || preset == "[]" ? "" : " [" + preset + "]");
}

std::string usage(const CLI::App& app) {
  std::string line = "Usage: portwright";
  if (app.get_parent() == nullptr) return line + " VERB [options]\n       portwright VERB --help\n";
  line += " " + app.get_name();
  for (const CLI::Option* argument : arguments_of(app)) {
    const std::string name = argument->get_name(true) + (repeatable(*argument) ? "..." : "");
    line += argument->get_required() ? " " + name : " [" + name + "]";
  }
  for (const CLI::Option* option : options_of(app))
    if (option->get_required())
      line += fmt::format(" {}{} {}{}", option->get_lnames().empty() ? "-" : "--",
                          option->get_lnames().empty() ? option->get_snames().front() : option->get_lnames().front(),
                          value_name(*option), repeatable(*option) ? "..." : "");
  return line + " [options]\n";
}

}  // namespace

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string all = option.get_type_name();
  std::vector<std::string> words;
  if (all.find_first_of("[:") != std::string::npos || all.find('|') == std::string::npos) return words;
  std::istringstream in(all);
  for (std::string word; std::getline(in, word, '|');) words.push_back(word);
  return words;
}

std::vector<const CLI::App*> visible_verbs(const CLI::App& app) {
  std::vector<const CLI::App*> out;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!verb->get_group().empty()) out.push_back(verb);
  return out;
}

std::vector<const CLI::Option*> arguments_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->get_positional(); });
}

std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
}

std::string help_text(const CLI::App& app) {
  std::string out = wrapped(app.get_description(), 0) + "\n\n" + usage(app);
  std::vector<std::pair<std::string, std::string>> rows;
  for (const CLI::App* verb : visible_verbs(app)) rows.emplace_back(verb->get_name(), verb->get_description());
  out += entries("Verbs", rows);
  rows.clear();
  for (const CLI::Option* argument : arguments_of(app))
    rows.emplace_back(argument->get_name(true), argument->get_description());
  out += entries("Arguments", rows);
  for (const char* group : {"Options", "Common options"}) {
    rows.clear();
    for (const CLI::Option* option : options_of(app))
      if (option->get_group() == group) rows.emplace_back(option_name(*option), description(*option));
    out += entries(group, rows);
  }
  return out + app.get_footer();
}

}  // namespace portwright
