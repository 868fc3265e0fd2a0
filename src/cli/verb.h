// A verb as its file declares it. CLI11 stays behind this: it is slow to compile, and only the files that parse, help
// and complete need it.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace portwright {

enum class Need { optional, required };

class Verb {
 public:
  explicit Verb(CLI::App& app) : app_(&app) {}

  // A positional argument, which has to be given.
  void argument(const std::string& name, std::string& to, const std::string& description);
  // One that takes one of a few words.
  void argument(const std::string& name, std::string& to, const std::vector<std::string>& words,
                const std::string& description);

  // An option with a value, which help calls `value`. What `to` holds is the default. T: std::string, double, int,
  // std::uint64_t, std::optional<double>, std::optional<std::int64_t>, and std::vector<std::string> for an option that
  // may be given many times.
  template <class T>
  void option(const std::string& names, T& to, const std::string& value, const std::string& description,
              Need need = Need::optional);
  // One that takes one of a few words.
  void choice(const std::string& names, std::string& to, const std::vector<std::string>& words,
              const std::string& description);
  void flag(const std::string& names, bool& to, const std::string& description);

 private:
  CLI::App* app_;
};

}  // namespace portwright
