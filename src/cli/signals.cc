#include "cli/signals.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

namespace portwright {
namespace {

// A signal handler can reach nothing but static memory, and may call only what is async-signal-safe.
std::array<char, 512> hint_text{};
volatile sig_atomic_t hint_size = 0;

void put(const char* text, std::size_t size) {
  if (::write(STDERR_FILENO, text, size) < 0) return;
}

void interrupted(int signal) {
  constexpr std::string_view kLine = "portwright: interrupted\n";
  if (::isatty(STDERR_FILENO) != 0) put("\r\033[K", 4);
  put(kLine.data(), kLine.size());
  put(hint_text.data(), static_cast<std::size_t>(hint_size));
  ::_exit(128 + signal);
}

}  // namespace

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
