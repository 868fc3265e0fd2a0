#include "base/library_at_work.h"

namespace portwright {
namespace {

// What a signal handler may look at; it runs on the thread that crashed.
constinit thread_local const char* volatile at_work = nullptr;

}  // namespace

LibraryAtWork::LibraryAtWork(const char* name) : before_(at_work) { at_work = name; }
LibraryAtWork::~LibraryAtWork() { at_work = before_; }

const char* LibraryAtWork::name() { return at_work; }

}  // namespace portwright
