// Which library is at work on the user's model, for a crash to be told as what it is.
#pragma once

namespace portwright {

// While one of these lives, a crash of its thread is laid to the library's account: the model is broken or hostile, and
// the library does not notice. `name` must live for ever.
class LibraryAtWork {
 public:
  explicit LibraryAtWork(const char* name);
  ~LibraryAtWork();
  LibraryAtWork(const LibraryAtWork&) = delete;
  LibraryAtWork& operator=(const LibraryAtWork&) = delete;
  // On this thread; nullptr when none is. May be asked in a signal handler.
  static const char* name();

 private:
  const char* before_;
};

}  // namespace portwright
