// Independent pieces of work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace portwright {

// Calls work(0), ..., work(count - 1), each once, in any order, on at most `threads` threads of which the caller's is
// one; 0: as many as this process may use cores. `work` must not throw. Returns when all is done.
template <class Work>
void in_parallel(std::size_t count, int threads, const Work& work) {
  const std::size_t most =
      threads > 0 ? static_cast<std::size_t>(threads) : std::max(1U, std::thread::hardware_concurrency());
  std::atomic<std::size_t> next{0};
  const auto take_all = [&] {
    for (std::size_t i; (i = next.fetch_add(1, std::memory_order_relaxed)) < count;) work(i);
  };
  std::vector<std::jthread> helpers;
  try {
    while (helpers.size() + 1 < std::min(most, count)) helpers.emplace_back(take_all);
  } catch (const std::system_error&) {  // no more threads to be had: those that run do the work
  }
  take_all();
}

}  // namespace portwright
