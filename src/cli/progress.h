// What goes on, told on standard error once it lasts longer than a second.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace portwright {

class Progress {
 public:
  enum class Style {
    silent,
    status,      // one line that rewrites itself, erased at the end (a terminal)
    lines,       // a line for each thing that lasts longer than a second
    every_line,  // a line for everything
  };
  explicit Progress(Style style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done from now on. May be called from any thread.
  void now(std::string what);
  // Says no more, and leaves no line behind.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;
  void watch(const std::stop_token& stop);
  void draw();
  void erase();

  const Style style_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::string what_;
  Clock::time_point since_ = begin_;
  bool told_ = true;    // the current thing has its line
  bool drawn_ = false;  // a status line stands on the terminal
  std::jthread watcher_;
};

}  // namespace portwright
