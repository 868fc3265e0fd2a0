#include "base/process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <sstream>
#include <utility>

#include "base/files.h"

namespace portwright {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t kLongestFrame = 256U << 20;
constexpr int kSocketFd = 3, kInboxFd = 4, kOutboxFd = 5;
constexpr auto kSampling = std::chrono::milliseconds(20);  // how often memory and time are looked at

Error channel_error(const std::string& what) { return {Fault::gate, "worker", "crashed", what, "", "", ""}; }

Status send_all(int fd, const void* data, std::size_t size) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t n = ::send(fd, bytes, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail(channel_error(std::string("the worker's channel broke: ") + std::strerror(errno)));
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return {};
}

// false at the end of the stream.
Result<bool> receive_all(int fd, void* data, std::size_t size) {
  auto* bytes = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t n = ::recv(fd, bytes, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != ECONNRESET)
      return fail(channel_error(std::string("the worker's channel broke: ") + std::strerror(errno)));
    if (n <= 0) return false;
    bytes += n;
    size -= static_cast<std::size_t>(n);
  }
  return true;
}

// A line "VmHWM:   1234 kB" of /proc/PID/status, in bytes; 0 when the process is gone.
std::size_t status_bytes(pid_t pid, std::string_view field) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(field)) return std::strtoull(line.c_str() + field.size() + 1, nullptr, 10) * 1024;
  return 0;
}

std::string end_of_log(const fs::path& log, std::size_t from) {
  constexpr std::size_t kMost = 4000;
  std::ifstream in(log, std::ios::binary);
  in.seekg(0, std::ios::end);
  const auto size = in.tellg() < 0 ? std::size_t{0} : static_cast<std::size_t>(in.tellg());
  if (size <= from) return "";
  in.seekg(static_cast<std::streamoff>(std::max(from, size > kMost ? size - kMost : 0)));
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string describe_exit(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    const char* name = sigabbrev_np(signal);
    return "died of signal " + std::to_string(signal) + (name ? std::string(" (SIG") + name + ")" : "");
  }
  return "exited with code " + std::to_string(WEXITSTATUS(status));
}

struct Spawned {
  pid_t pid = -1;
  int socket = -1;
};

// Only async-signal-safe calls between fork and exec.
[[noreturn]] void become_worker(char* const* argv, char* const* environment, std::array<int, 3> channel, int log,
                                pid_t parent) {
  ::setpgid(0, 0);  // Ctrl-C is the parent's business
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  for (int& fd : channel) fd = ::fcntl(fd, F_DUPFD, 16);  // out of the way of 3, 4 and 5
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, 0);
  ::dup2(log, 1);
  ::dup2(log, 2);
  ::dup2(channel[0], kSocketFd);
  ::dup2(channel[1], kInboxFd);
  ::dup2(channel[2], kOutboxFd);
  for (const int fd : channel) ::close(fd);
  ::execvpe(argv[0], argv, environment);
  ::_exit(127);
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (auto& text : strings) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> merged_environment(const std::vector<std::string>& added) {
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto name = text.substr(0, text.find('=') + 1);
    if (std::none_of(added.begin(), added.end(), [&](const std::string& a) { return a.starts_with(name); }))
      all.emplace_back(text);
  }
  return all;
}

Result<Spawned> spawn(const WorkerCommand& command, int inbox, int outbox, int log) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return fail({Fault::environment, "worker", "environment",
                 std::string("cannot make a socket: ") + std::strerror(errno), "", "", ""});
  std::vector<std::string> arguments = command.argv;
  std::vector<std::string> environment = merged_environment(command.environment);
  const auto argv = pointers(arguments);
  const auto envp = pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become_worker(argv.data(), envp.data(), {pair[1], inbox, outbox}, log, parent);
  ::close(pair[1]);
  if (pid < 0) {
    ::close(pair[0]);
    return fail({Fault::environment, "worker", "environment",
                 std::string("cannot start a process: ") + std::strerror(errno), "", "", ""});
  }
  ::setpgid(pid, pid);
  return Spawned{pid, pair[0]};
}

}  // namespace

Status write_frame(int fd, const Json& message) {
  const std::string text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto size = static_cast<std::uint32_t>(text.size());
  PW_CHECK(send_all(fd, &size, sizeof size));
  return send_all(fd, text.data(), text.size());
}

Result<std::optional<Json>> read_frame(int fd) {
  std::uint32_t size = 0;
  PW_TRY(more, receive_all(fd, &size, sizeof size));
  if (!more) return std::optional<Json>();
  if (size > kLongestFrame) return fail(channel_error("a worker sent a frame of an impossible length"));
  std::string text(size, '\0');
  PW_TRY(whole, receive_all(fd, text.data(), text.size()));
  if (!whole) return std::optional<Json>();
  PW_TRY(message, parse_json(text, "a worker's message"));
  return std::optional<Json>(std::move(message));
}

struct Worker::State {
  WorkerCommand command;
  std::optional<ScratchFolder> scratch;  // holds the log when the caller named none
  pid_t pid = -1;
  int socket = -1;
  std::size_t log_start = 0;
  SharedMemory inbox, outbox;
  std::function<void(const std::string&)> listener;
  std::uint64_t next_id = 1;
  std::size_t peak = 0;

  State(WorkerCommand c, SharedMemory in, SharedMemory out)
      : command(std::move(c)), inbox(std::move(in)), outbox(std::move(out)) {}
  ~State() {
    if (socket >= 0) ::close(socket);
    end();
  }

  // Kills the whole group (compilers start helpers of their own) and gives the exit status.
  int end() {
    if (pid < 0) return 0;
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = -1;
    return status;
  }

  Error died(int status) {
    Error error{Fault::gate, "worker", "crashed", "the worker " + describe_exit(status), command.log.string(), "", ""};
    error.detail = end_of_log(command.log, log_start);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
      error.fault = Fault::environment;
      error.code = "environment";
      error.message = "cannot start " + command.argv[0];
      error.hint = "check that the program exists and can be executed";
    }
    return error;
  }

  // Waits a moment for a process that closed its channel, so that its own exit status is told and not our kill.
  Error died_by_itself() {
    int status = 0;
    for (int i = 0; i < 100; ++i) {
      if (::waitpid(pid, &status, WNOHANG) == pid) {
        ::kill(-pid, SIGKILL);
        pid = -1;
        return died(status);
      }
      ::usleep(10'000);
    }
    return died(end());
  }

  void sample_memory() { peak = std::max(peak, status_bytes(pid, "VmHWM:")); }

  Error stopped(std::string code, std::string message, std::string hint) {
    end();
    return {Fault::gate,
            "worker",
            std::move(code),
            std::move(message),
            command.log.string(),
            std::move(hint),
            end_of_log(command.log, log_start)};
  }

  // Waits until the socket can be read, watching the limits.
  Status wait_readable(Clock::time_point started) {
    const WorkerLimits& limits = command.limits;
    for (;;) {
      pollfd waiting{socket, POLLIN, 0};
      const int ready = ::poll(&waiting, 1, static_cast<int>(kSampling.count()));
      if (ready > 0) return {};
      if (ready < 0 && errno != EINTR) return fail(channel_error(std::strerror(errno)));
      if (limits.memory_bytes > 0 && status_bytes(pid, "VmRSS:") > limits.memory_bytes)
        return fail(stopped("out_of_memory",
                            "the worker took more than " + std::to_string(limits.memory_bytes >> 20) + " MB of memory",
                            "raise --memory, or use a smaller model or input"));
      if (limits.timeout.count() > 0 && Clock::now() - started > limits.timeout)
        return fail(stopped("timed_out",
                            "the worker did not answer within " + std::to_string(limits.timeout.count() / 1000) + " s",
                            "raise --timeout"));
    }
  }

  Result<Json> answer(std::uint64_t id, Clock::time_point started) {
    for (;;) {
      PW_CHECK(wait_readable(started));
      PW_TRY(frame, read_frame(socket));
      if (!frame) return fail(died_by_itself());
      Json& message = *frame;
      if (!message.is_object() || message.value("id", std::uint64_t{0}) != id) continue;
      if (message.contains("note")) {
        if (listener && message["note"].is_string()) listener(message["note"].get<std::string>());
      } else if (message.contains("error")) {
        return fail(error_from(message["error"]));
      } else {
        return message.contains("ok") ? std::move(message["ok"]) : Json::object();
      }
    }
  }
};

Worker::Worker(std::unique_ptr<State> state) : state_(std::move(state)) {}
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;
Worker::~Worker() = default;

Result<Worker> Worker::start(WorkerCommand command) {
  PW_TRY(inbox, SharedMemory::create("portwright-inbox"));
  PW_TRY(outbox, SharedMemory::create("portwright-outbox"));
  auto state = std::make_unique<State>(std::move(command), std::move(inbox), std::move(outbox));
  if (state->command.log.empty()) {
    PW_TRY(scratch, ScratchFolder::make("portwright-"));
    state->command.log = scratch.path() / "worker.log";
    state->scratch = std::move(scratch);
  }
  const int log = ::open(state->command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return fail(file_error("worker", "cannot_write", state->command.log, errno));
  struct stat info {};
  ::fstat(log, &info);
  state->log_start = static_cast<std::size_t>(info.st_size);
  auto spawned = spawn(state->command, state->inbox.fd(), state->outbox.fd(), log);
  ::close(log);
  if (!spawned) return fail(spawned.error());
  state->pid = spawned->pid;
  state->socket = spawned->socket;
  return Worker(std::move(state));
}

Result<Json> Worker::call(std::string_view op, Json request) {
  State& s = *state_;
  if (!alive()) return fail(channel_error("the worker is not running any more"));
  const auto started = Clock::now();
  request["id"] = s.next_id;
  request["op"] = op;
  auto sent = write_frame(s.socket, request);
  Result<Json> reply = sent ? s.answer(s.next_id++, started) : fail(s.died_by_itself());
  if (alive()) s.sample_memory();
  if (s.command.waited) *s.command.waited += std::chrono::duration<double>(Clock::now() - started).count();
  return reply;
}

void Worker::on_note(std::function<void(const std::string&)> listener) { state_->listener = std::move(listener); }

Result<Json> Worker::put(const Tensors& tensors) { return put_tensors(state_->inbox, tensors); }

Result<Tensors> Worker::stage(const Tensors& tensors) {
  PW_TRY(described, put(tensors));
  return get_tensors(state_->inbox, described);
}

Result<Tensors> Worker::get(const Json& described) { return get_tensors(state_->outbox, described); }

bool Worker::alive() const { return state_->pid > 0; }
std::size_t Worker::peak_memory() const { return state_->peak; }
void Worker::set_limits(WorkerLimits limits) { state_->command.limits = limits; }
const fs::path& Worker::log() const { return state_->command.log; }

namespace {

// A worker's standard error is its log: one line for each request.
void log_request(const Json& request, const Json& reply, Clock::time_point started) {
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  const bool failed = reply.contains("error");
  std::fprintf(stderr, "%s: %s in %.3f s%s%s\n", request.value("op", std::string()).c_str(), failed ? "failed" : "done",
               seconds, failed ? ": " : "", failed ? reply["error"].value("message", std::string()).c_str() : "");
}

}  // namespace

Status serve(const std::function<Result<Json>(std::string_view, const Json&, WorkerBoxes&)>& handler) {
  PW_TRY(inbox, SharedMemory::attach(kInboxFd));
  PW_TRY(outbox, SharedMemory::attach(kOutboxFd));
  WorkerBoxes boxes{std::move(inbox), std::move(outbox)};
  for (;;) {
    PW_TRY(request, read_frame(kSocketFd));
    if (!request) return {};
    Json reply{{"id", request->value("id", std::uint64_t{0})}};
    const auto started = Clock::now();
    try {
      auto result = handler(request->value("op", std::string()), *request, boxes);
      if (result)
        reply["ok"] = std::move(*result);
      else
        reply["error"] = to_json(result.error());
    } catch (const std::bad_alloc&) {
      reply["error"] = to_json({Fault::gate, "worker", "out_of_memory", "the worker ran out of memory", "", "", ""});
    } catch (const std::exception& e) {
      reply["error"] = to_json({Fault::defect, "worker", "exception", e.what(), "", "", ""});
    }
    log_request(*request, reply, started);
    PW_CHECK(write_frame(kSocketFd, reply));
  }
}

fs::path own_program() {
  std::error_code ignored;
  return fs::read_symlink("/proc/self/exe", ignored);
}

}  // namespace portwright
