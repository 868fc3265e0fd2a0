#include "base/library_at_work.h"

#include <atomic>

namespace portwright {
namespace {

// What a signal handler may look at is static memory.
std::atomic<const char*> at_work{nullptr};

}  // namespace

LibraryAtWork::LibraryAtWork(const char* name) : before_(at_work.exchange(name)) {}
LibraryAtWork::~LibraryAtWork() { at_work.store(before_); }

const char* LibraryAtWork::name() { return at_work.load(); }

}  // namespace portwright
