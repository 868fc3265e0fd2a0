// How --help looks, for the program and for each verb.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace portwright {

// Usage line, arguments, options, examples; for the program the list of verbs.
std::string help_text(const CLI::App& app);

// Verbs that a user may see, in the order in which they were added.
std::vector<const CLI::App*> visible_verbs(const CLI::App& app);
// Positional arguments, and options (without --help), in the order in which they were added.
std::vector<const CLI::Option*> arguments_of(const CLI::App& app);
std::vector<const CLI::Option*> options_of(const CLI::App& app);
bool takes_value(const CLI::Option& option);
// The words of an option or argument that takes one of a few; its value's name is "html|md". Empty for any other.
std::vector<std::string> choices_of(const CLI::Option& option);

}  // namespace portwright
