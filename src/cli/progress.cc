#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>

namespace portwright {
namespace {

constexpr auto kPatience = std::chrono::seconds(1);
constexpr auto kRhythm = std::chrono::milliseconds(200);

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

std::size_t terminal_width() {
  winsize size{};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

}  // namespace

Progress::Progress(Style style) : style_(style) {
  if (style == Style::status || style == Style::lines)
    watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Progress::~Progress() { finish(); }

void Progress::finish() {
  if (watcher_.joinable()) {
    watcher_.request_stop();
    watcher_.join();
  }
  erase();
}

void Progress::now(std::string what) {
  const std::scoped_lock lock(mutex_);
  if (style_ == Style::every_line) say("portwright: " + what + "\n");
  what_ = std::move(what);
  since_ = Clock::now();
  told_ = false;
}

void Progress::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, stop, kRhythm, [&] { return stop.stop_requested(); })) {
    if (style_ == Style::status && Clock::now() - begin_ >= kPatience) draw();
    if (style_ == Style::lines && !told_ && Clock::now() - since_ >= kPatience) {
      told_ = true;
      say("portwright: " + what_ + "\n");
    }
  }
}

void Progress::draw() {
  if (what_.empty()) return;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since_).count();
  const std::string time = seconds >= 1 ? fmt::format(" ({} s)", seconds) : "";
  const std::size_t room = terminal_width() - 1 - time.size();
  const std::string shown = what_.size() > room ? what_.substr(0, room - 3) + "..." : what_;
  say("\r\033[K" + shown + time);
  drawn_ = true;
}

void Progress::erase() {
  if (drawn_) say("\r\033[K");
  drawn_ = false;
}

}  // namespace portwright
