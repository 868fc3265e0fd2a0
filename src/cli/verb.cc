#include "cli/verb.h"

#include <CLI/CLI.hpp>

#include "report/format.h"

namespace portwright {

void Verb::argument(const std::string& name, std::string& to, const std::string& description) {
  app_->add_option(name, to, description)->required();
}

void Verb::argument(const std::string& name, std::string& to, const std::vector<std::string>& words,
                    const std::string& description) {
  app_->add_option(name, to, description)
      ->required()
      ->type_name(joined(words, "|"))
      ->check(CLI::IsMember(words).description(""));
}

// Each option takes one value each time it is given: "--target a b" does not swallow an argument.
template <class T>
void Verb::option(const std::string& names, T& to, const std::string& value, const std::string& description,
                  Need need) {
  app_->add_option(names, to, description)
      ->type_name(value)
      ->allow_extra_args(false)
      ->required(need == Need::required)
      ->capture_default_str();
}

template void Verb::option(const std::string&, std::string&, const std::string&, const std::string&, Need);
template void Verb::option(const std::string&, double&, const std::string&, const std::string&, Need);
template void Verb::option(const std::string&, int&, const std::string&, const std::string&, Need);
template void Verb::option(const std::string&, std::uint64_t&, const std::string&, const std::string&, Need);
template void Verb::option(const std::string&, std::optional<double>&, const std::string&, const std::string&, Need);
template void Verb::option(const std::string&, std::optional<std::int64_t>&, const std::string&, const std::string&,
                           Need);
template void Verb::option(const std::string&, std::vector<std::string>&, const std::string&, const std::string&, Need);

void Verb::choice(const std::string& names, std::string& to, const std::vector<std::string>& words,
                  const std::string& description) {
  app_->add_option(names, to, description)
      ->type_name(joined(words, "|"))
      ->allow_extra_args(false)
      ->check(CLI::IsMember(words).description(""))
      ->capture_default_str();
}

void Verb::flag(const std::string& names, bool& to, const std::string& description) {
  app_->add_flag(names, to, description);
}

}  // namespace portwright
