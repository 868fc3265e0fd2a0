// Child processes that may crash, hang or eat the machine, and the message channel to them.
//
// A worker is a program that Portwright starts with three inherited descriptors:
//   3  a stream socket carrying frames: 4 bytes little-endian length, then that many bytes of UTF-8 JSON
//   4  the inbox: shared memory (memfd) that the parent writes and the worker reads
//   5  the outbox: shared memory that the worker writes and the parent reads
// Request {"id": n, "op": "...", ...}; reply {"id": n, "ok": {...}} or {"id": n, "error": {fault, stage, code, message,
// where, hint, detail}}; in between any number of {"id": n, "note": "text"} for progress. A tensor in a message is
// {"name", "dtype", "shape", "offset"}: row-major bytes at that offset of the inbox (requests) or outbox (replies),
// offsets 64-byte aligned. Both boxes only ever grow (ftruncate by the writer; the reader maps anew). What a reply
// put into the outbox is valid until the next request.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "portwright/result.h"
#include "portwright/tensor.h"

namespace portwright {

// Shared memory that grows; both ends of a worker use it. Mappings given out stay valid while anyone holds them.
class SharedMemory {
 public:
  static Result<SharedMemory> create(const char* name);  // owns a new memfd
  static Result<SharedMemory> attach(int fd);            // the other end
  int fd() const;
  // Makes at least `bytes` available for writing.
  Status grow(std::size_t bytes);
  // The mapping of at least the first `bytes`; fails when the writer has not grown that far.
  Result<std::shared_ptr<std::byte>> map(std::size_t bytes);
  // Where in this memory these bytes lie; nullopt when they lie elsewhere.
  std::optional<std::size_t> offset_of(const std::byte* data, std::size_t bytes) const;

  SharedMemory(SharedMemory&&) noexcept;
  SharedMemory& operator=(SharedMemory&&) noexcept;
  ~SharedMemory();

 private:
  struct State;
  explicit SharedMemory(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The description of a tensor that lies at `offset` of a box.
Json describe(const std::string& name, const Tensor& tensor, std::size_t offset);
// Places tensors into a box one after another, 64-byte aligned, and describes them for a message. Tensors that already
// lie in this box are described where they are, and nothing is copied; the others overwrite what else the box held.
Result<Json> put_tensors(SharedMemory& box, const Tensors& tensors);
// Views of the tensors that a message describes; checks names, dtypes, shapes and bounds.
Result<Tensors> get_tensors(SharedMemory& box, const Json& described);

// One frame out, one frame in; the worker's side of the protocol (the parent uses Worker).
Status write_frame(int fd, const Json& message);
// nullopt at the end of the stream.
Result<std::optional<Json>> read_frame(int fd);

struct WorkerLimits {
  std::chrono::milliseconds timeout{0};  // for one call; 0: none
  std::size_t memory_bytes = 0;          // resident memory of the worker; 0: none
};

struct WorkerCommand {
  std::vector<std::string> argv;         // argv[0] is the program
  std::vector<std::string> environment;  // "NAME=value", added to the parent's
  std::filesystem::path log;             // stdout and stderr are appended here; empty: a temporary file
  WorkerLimits limits;
  // Wall time spent waiting in call() is added here, by every worker that shares it: time that is not Portwright's own.
  std::shared_ptr<double> waited;
};

// A running worker. Not thread-safe; one call at a time. Killed when destroyed.
class Worker {
 public:
  static Result<Worker> start(WorkerCommand command);

  // Sends a request and waits for its reply. Failures of the worker are values with these codes:
  //   crashed (died by signal or exit; detail: the end of its log), timed_out, out_of_memory (both: it was killed)
  // Errors of the worker itself come back as it sent them. After one of the three the worker is dead; start another.
  Result<Json> call(std::string_view op, Json request);
  void on_note(std::function<void(const std::string&)> listener);

  // Tensors that the worker can read without a copy: placed in the inbox once, valid until others are put there.
  Result<Tensors> stage(const Tensors& tensors);
  Result<Json> put(const Tensors& tensors);    // for a request
  Result<Tensors> get(const Json& described);  // of a reply

  bool alive() const;
  std::size_t peak_memory() const;  // bytes resident at most so far, as far as sampled
  void set_limits(WorkerLimits limits);
  const std::filesystem::path& log() const;

  Worker(Worker&&) noexcept;
  Worker& operator=(Worker&&) noexcept;
  ~Worker();

 private:
  struct State;
  explicit Worker(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Serves requests on descriptors 3, 4 and 5 until the stream ends. The handler may place tensors in `outbox`.
// Exceptions of the handler become replies with code "exception".
struct WorkerBoxes {
  SharedMemory inbox;
  SharedMemory outbox;
};
Status serve(const std::function<Result<Json>(std::string_view op, const Json& request, WorkerBoxes& boxes)>& handler);

// Path of the running program (/proc/self/exe).
std::filesystem::path own_program();

}  // namespace portwright
