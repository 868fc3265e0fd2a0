// Ctrl-C, closed pipes and crashes.
#pragma once

#include <string_view>

#include "cli/console.h"

namespace portwright {

// SIGINT, SIGTERM and SIGHUP end the program with one line, a hint and 128 + the signal's number: all files are written
// by renaming, so none is left half done, and workers die with their parent. SIGPIPE is ignored.
void install_signal_handlers();

// The hint that an interruption prints, for example how to continue.
void set_interruption_hint(std::string_view hint);

// A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT) ends the program as an error does. In a library that was at work
// on the model (base/library_at_work.h) the model is to blame, exit code 4; anywhere else it is a defect of Portwright.
void install_crash_handlers(const Console& console);

}  // namespace portwright
