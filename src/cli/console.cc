#include "cli/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "base/files.h"
#include "cli/progress.h"

namespace portwright {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

const char* escape_of(Tone tone) {
  switch (tone) {
    case Tone::strong:
      return "\033[1m";
    case Tone::faint:
      return "\033[2m";
    case Tone::good:
      return "\033[32m";
    case Tone::warn:
      return "\033[33m";
    case Tone::bad:
      return "\033[31m";
    case Tone::plain:
      break;
  }
  return "";
}

std::string painted(bool colour, Tone tone, std::string_view text) {
  if (!colour || tone == Tone::plain || text.empty()) return std::string(text);
  return escape_of(tone) + std::string(text) + "\033[0m";
}

// One line: what a library put into a message may have several.
std::string single_line(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!blank)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string indented(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "  | " + std::string(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return out;
}

std::string fallback_hint(const Error& error) {
  if (!error.detail.empty()) return "run it again with -v to see what was said";
  switch (error.fault) {
    case Fault::usage:
      return "see portwright --help";
    case Fault::environment:
      return "portwright doctor shows what works here";
    case Fault::input:
      return "check that this is the right file and that it is whole";
    case Fault::gate:
      return "run it again with -v to see more";
    case Fault::defect:
      break;
  }
  return "please report this with the command line and the output of portwright doctor";
}

}  // namespace

Tone tone_of(std::string_view word) {
  if (word == "passed" || word == "fixed" || word == "done" || word == "reused") return Tone::good;
  if (word == "vacuous" || word == "environment" || word == "open" || word == "warning") return Tone::warn;
  if (word == "not_run" || word == "skipped" || word == "accepted" || word == "note") return Tone::faint;
  return word.empty() ? Tone::plain : Tone::bad;
}

bool takes_colour(int fd) {
  if (!variable("NO_COLOR").empty()) return false;
  if (const std::string force = variable("CLICOLOR_FORCE"); !force.empty() && force != "0") return true;
  return ::isatty(fd) != 0 && variable("TERM") != "dumb";
}

Console::Console(ConsoleOptions options) : options_(options), colour_(takes_colour(STDOUT_FILENO)) {}

Console::~Console() = default;

void Console::write(std::string_view text) {
  if (progress_) progress_->finish();
  while (!text.empty() && !closed_) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      closed_ = true;
      if (errno != EPIPE) output_status_ = fail(file_error("write", "cannot_write", "standard output", errno));
    }
  }
}

void Console::print(std::string_view text) {
  if (!options_.json && !options_.quiet) write(text);
}

void Console::document(const Json& value) {
  if (options_.json) write(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void Console::product(std::string_view text) { write(text); }

std::string Console::paint(Tone tone, std::string_view text) const { return painted(colour_, tone, text); }

ErrorReport Console::report(const Error& error, ExitCode code) const {
  std::string line = single_line(error.message);
  if (!error.where.empty() && line.find(error.where) == std::string::npos)
    line += " (" + single_line(error.where) + ")";
  const std::string hint = single_line(error.hint.empty() ? fallback_hint(error) : error.hint);
  const bool colour = takes_colour(STDERR_FILENO);
  ErrorReport out;
  out.text = fmt::format("{} {}\n{} {}\n", painted(colour, Tone::bad, "portwright: error:"), line,
                         painted(colour, Tone::strong, "hint:"), hint);
  if (options_.verbose && !error.detail.empty()) out.text += indented(error.detail);
  Json document = portwright::document("error");
  document["exit_code"] = static_cast<int>(code);
  document["error"] = to_json(error);
  document["error"]["hint"] = hint;
  if (options_.json) out.document = document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return out;
}

void Console::error(const Error& error, ExitCode code) {
  const ErrorReport report = this->report(error, code);
  std::fputs(report.text.c_str(), stderr);
  write(report.document);
}

Progress& Console::progress() {
  if (progress_) return *progress_;
  const bool terminal = ::isatty(STDERR_FILENO) != 0 && variable("TERM") != "dumb";
  auto style = terminal ? Progress::Style::status : Progress::Style::lines;
  if (options_.verbose) style = Progress::Style::every_line;
  if (options_.quiet) style = Progress::Style::silent;
  progress_ = std::make_unique<Progress>(style);
  return *progress_;
}

}  // namespace portwright
