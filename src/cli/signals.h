// Ctrl-C and closed pipes.
#pragma once

#include <string_view>

namespace portwright {

// SIGINT, SIGTERM and SIGHUP end the program with one line, a hint and 128 + the signal's number: all files are written
// by renaming, so none is left half done, and workers die with their parent. SIGPIPE is ignored.
void install_signal_handlers();

// The hint that an interruption prints, for example how to continue.
void set_interruption_hint(std::string_view hint);

}  // namespace portwright
