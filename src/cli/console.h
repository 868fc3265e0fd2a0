// The terminal: human text or one JSON document on standard output, progress and errors on standard error.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/json.h"
#include "cli/exit_codes.h"
#include "portwright/result.h"

namespace portwright {

class Progress;

enum class Tone { plain, strong, faint, good, warn, bad };
Tone tone_of(std::string_view verdict);  // of a verdict word or a status word of a record

struct ConsoleOptions {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
};

// An error as it is told: `text` for people, `document` for scripts (empty without --json).
struct ErrorReport {
  std::string text, document;
};

class Console {
 public:
  explicit Console(ConsoleOptions options);
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  bool json() const { return options_.json; }
  bool verbose() const { return options_.verbose; }

  // Human text on standard output; nothing with --json or --quiet.
  void print(std::string_view text);
  // The one document of --json; nothing without it.
  void document(const Json& value);
  // Text that is the product itself (a report, a completion script): always printed.
  void product(std::string_view text);
  // Text in a colour, when standard output takes colours.
  std::string paint(Tone tone, std::string_view text) const;

  // "portwright: error: ..." and "hint: ..." on standard error; with --json the error document on standard output too.
  void error(const Error& error, ExitCode code);
  ErrorReport report(const Error& error, ExitCode code) const;

  // What goes on, on standard error, until something is printed; silent with --quiet.
  Progress& progress();

  // What went wrong with standard output, if anything did. A reader that closed its end is not an error.
  const Status& output_status() const { return output_status_; }

 private:
  void write(std::string_view text);
  std::unique_ptr<Progress> progress_;
  ConsoleOptions options_;
  bool colour_;
  bool closed_ = false;  // nobody reads standard output any more
  Status output_status_;
};

// Whether a stream takes colours: a terminal, unless NO_COLOR or TERM=dumb says no or CLICOLOR_FORCE says yes.
bool takes_colour(int fd);

}  // namespace portwright
