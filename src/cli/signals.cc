#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "base/library_at_work.h"

namespace portwright {
namespace {

// A signal handler can reach nothing but static memory, and may call only what is async-signal-safe.
std::array<char, 512> hint_text{};
volatile sig_atomic_t hint_size = 0;

void put(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(fd, text.data(), text.size());
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

void clear_status_line() {
  if (::isatty(STDERR_FILENO) != 0) put(STDERR_FILENO, "\r\033[K");
}

void interrupted(int signal) {
  clear_status_line();
  put(STDERR_FILENO, "portwright: interrupted\n");
  put(STDERR_FILENO, {hint_text.data(), static_cast<std::size_t>(hint_size)});
  ::_exit(128 + signal);
}

// What a crash prints, made before it happens.
struct CrashReports {
  ErrorReport of_model, of_portwright;
};
CrashReports crash_reports;

void crashed(int) {
  const bool by_model = LibraryAtWork::name() != nullptr;
  const ErrorReport& report = by_model ? crash_reports.of_model : crash_reports.of_portwright;
  clear_status_line();
  put(STDERR_FILENO, report.text);
  put(STDOUT_FILENO, report.document);
  ::_exit(static_cast<int>(by_model ? ExitCode::input : ExitCode::defect));
}

}  // namespace

void install_crash_handlers(const Console& console) {
  const Error of_model{Fault::input,
                       "model",
                       "library_crash",
                       "the ONNX library crashes on this model, which is broken or hostile",
                       "",
                       "if other tools load it, report the model together with this version",
                       ""};
  const Error of_portwright{Fault::defect,
                            "program",
                            "crash",
                            "a defect of Portwright: it crashed",
                            "",
                            "report the command and the model together with this version",
                            ""};
  crash_reports = {console.report(of_model, ExitCode::input), console.report(of_portwright, ExitCode::defect)};
  // A stack of its own: the other one may be what is exhausted.
  static std::array<std::byte, std::size_t{1} << 16> stack;
  stack_t spare{};
  spare.ss_sp = stack.data();
  spare.ss_size = stack.size();
  ::sigaltstack(&spare, nullptr);
  struct sigaction action {};
  action.sa_handler = crashed;
  action.sa_flags = static_cast<int>(SA_ONSTACK | SA_RESETHAND);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) ::sigaction(signal, &action, nullptr);
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = interrupted;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

void set_interruption_hint(std::string_view hint) {
  hint_size = 0;
  const std::string line = "hint: " + std::string(hint.substr(0, hint_text.size() - 8)) + "\n";
  std::copy(line.begin(), line.end(), hint_text.begin());
  hint_size = static_cast<sig_atomic_t>(line.size());
}

}  // namespace portwright
