// How a crash ends the program. The rest of the terminal is tested from outside, by pytest.
#include "cli/signals.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <thread>

#include "base/library_at_work.h"

namespace portwright {
namespace {

using ::testing::ExitedWithCode;

[[noreturn]] void crash(int signal) {
  install_crash_handlers(Console({}));
  ::raise(signal);
  ::_exit(0);
}

TEST(Crash, InTheProgramItselfIsItsDefect) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    EXPECT_EXIT(crash(signal), ExitedWithCode(70), "a defect of Portwright: it crashed\nhint: ");
}

TEST(Crash, WhileALibraryIsAtWorkOnTheModelIsLaidToTheModel) {
  const auto at_work = [] {
    const LibraryAtWork working("a library");
    crash(SIGSEGV);
  };
  EXPECT_EXIT(at_work(), ExitedWithCode(4), "crashes on this model, which is broken or hostile\nhint: ");
}

TEST(Crash, AfterTheLibraryIsTheProgramsAgain) {
  const auto after = [] {
    { const LibraryAtWork working("a library"); }
    crash(SIGSEGV);
  };
  EXPECT_EXIT(after(), ExitedWithCode(70), "a defect of Portwright");
}

TEST(Crash, OnAnotherThreadIsToldTheSameWay) {
  const auto elsewhere = [] {
    const LibraryAtWork working("a library");
    std::thread([] { crash(SIGSEGV); }).join();
  };
  EXPECT_EXIT(elsewhere(), ExitedWithCode(70), "a defect of Portwright");
}

}  // namespace
}  // namespace portwright
