#include "probes/control/process/run_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <ctime>
#include <string_view>
#include <system_error>
#include <utility>

#include "probes/control/process/file_descriptor.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

// How often the wait looks at the interrupt flag and at a child that ended without closing its
// output.
constexpr milliseconds kSlice{50};
constexpr milliseconds kAfterEndOfOutput{5};
// A killed child is reaped at once unless the kernel holds it (a hung network file system).
constexpr milliseconds kReapAfterKill{2'000};

std::string ErrnoText(int code) {
  return std::generic_category().message(code);
}

/// Both ends above 2, so that the child's dup2 calls cannot overwrite one
/// another when this process was started with stdin, stdout or stderr closed.
struct Pipe {
  FileDescriptor read_end;
  FileDescriptor write_end;
};

Result<Pipe> OpenPipe() {
  std::array<int, 2> raw{};
  if (pipe2(raw.data(), O_CLOEXEC) != 0) {
    return Error{ErrorCode::kUnavailable, "cannot open a pipe: " + ErrnoText(errno), ""};
  }
  Pipe pipe{FileDescriptor(raw[0]), FileDescriptor(raw[1])};
  for (FileDescriptor* end : {&pipe.read_end, &pipe.write_end}) {
    if (end->Get() <= STDERR_FILENO) {
      *end = FileDescriptor(fcntl(end->Get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
    }
    if (end->Get() < 0) {
      return Error{ErrorCode::kUnavailable, "cannot open a pipe: " + ErrnoText(errno), ""};
    }
  }
  return pipe;
}

void MakeNonBlocking(const FileDescriptor& fd) {
  fcntl(fd.Get(), F_SETFL, fcntl(fd.Get(), F_GETFL) | O_NONBLOCK);
}

/// A write to a child that has closed its stdin must not end this process: SIGPIPE is blocked for
/// this thread, and the one that a write raised is taken away again. Other threads keep theirs.
class BlockedSigpipe {
 public:
  BlockedSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    sigemptyset(&pending);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~BlockedSigpipe() {
    const timespec no_wait{};
    while (!was_pending_ && sigtimedwait(&sigpipe_, nullptr, &no_wait) == -1 && errno == EINTR) {
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  BlockedSigpipe(const BlockedSigpipe&) = delete;
  BlockedSigpipe& operator=(const BlockedSigpipe&) = delete;

 private:
  sigset_t sigpipe_{};
  sigset_t before_{};
  bool was_pending_ = false;
};

std::vector<std::string> Environment(const std::map<std::string, std::string>& extra) {
  std::vector<std::string> result;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (extra.count(std::string(text.substr(0, text.find('=')))) == 0) {
      result.emplace_back(text);
    }
  }
  for (const auto& [name, value] : extra) {
    result.emplace_back(name).append("=").append(value);
  }
  return result;
}

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (std::string& text : strings) {
    pointers.push_back(text.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

class SpawnSettings {
 public:
  SpawnSettings(const Pipe& in, const Pipe& out, const Pipe& err) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawn_file_actions_adddup2(&actions_, in.read_end.Get(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, out.write_end.Get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, err.write_end.Get(), STDERR_FILENO);
    // Not every library opens its descriptors close-on-exec.
    posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t defaults;
    sigemptyset(&defaults);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGCHLD}) {
      sigaddset(&defaults, signal);
    }
    posix_spawnattr_setsigdefault(&attributes_, &defaults);
    posix_spawnattr_setflags(
        &attributes_,
        static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnSettings() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* Actions() const { return &actions_; }
  const posix_spawnattr_t* Attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_{};
  posix_spawnattr_t attributes_{};
};

Error SpawnError(const std::string& program, int code,
                 const std::vector<std::string>& environment) {
  if (code == ENOENT && program.find('/') == std::string::npos) {
    const auto path = std::find_if(environment.begin(), environment.end(),
                                   [](const auto& entry) { return entry.starts_with("PATH="); });
    return {ErrorCode::kNotFound,
            "program '" + program + "' is not in PATH (" +
                (path == environment.end() ? "PATH is not set" : path->substr(5)) + ")",
            "install it or add its folder to PATH"};
  }
  const ErrorCode kind = code == ENOENT                      ? ErrorCode::kNotFound
                         : code == EACCES || code == ENOEXEC ? ErrorCode::kPermissionDenied
                                                             : ErrorCode::kUnavailable;
  return {kind, "cannot run '" + program + "': " + ErrnoText(code), ""};
}

/// A running child. Killed with its group and reaped when it goes out of scope unless it has ended.
class Child {
 public:
  explicit Child(pid_t pid) : pid_(pid) {}
  ~Child() {
    if (!ended_) {
      kill(-pid_, SIGKILL);
      const Deadline give_up = Deadline::After(kReapAfterKill);
      while (!Ended() && !give_up.Passed()) {
        poll(nullptr, 0, 1);
      }
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Reaps without waiting. True from then on.
  bool Ended() {
    if (!ended_) {
      const pid_t reaped = waitpid(pid_, &status_, WNOHANG);
      ended_ = reaped == pid_ || (reaped == -1 && errno == ECHILD);
    }
    return ended_;
  }
  int Status() const { return status_; }

 private:
  pid_t pid_;
  bool ended_ = false;
  int status_ = 0;
};

/// What moves between this process and the child.
struct Streams {
  FileDescriptor in;
  FileDescriptor out;
  FileDescriptor err;
  std::string_view to_write;
  ProcessOutput output;
};

void WriteSome(Streams& streams) {
  const BlockedSigpipe no_signal;
  const ssize_t count = write(streams.in.Get(), streams.to_write.data(), streams.to_write.size());
  if (count >= 0) {
    streams.to_write.remove_prefix(static_cast<std::size_t>(count));
  } else if (errno != EAGAIN && errno != EINTR) {
    streams.to_write = {};  // EPIPE: a program need not read what it is told
  }
  if (streams.to_write.empty()) {
    streams.in = FileDescriptor();
  }
}

/// Reads what is there now, at most `limit` bytes of it into `into`; closes `fd` at the end.
void ReadAvailable(FileDescriptor& fd, std::string& into, std::size_t limit) {
  std::array<char, 16384> buffer{};
  while (fd.Get() >= 0 && into.size() <= limit) {
    const ssize_t count = read(fd.Get(), buffer.data(), buffer.size());
    if (count > 0) {
      into.append(buffer.data(), static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      fd = FileDescriptor();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

void ReadBoth(Streams& streams, std::size_t max_stdout) {
  ReadAvailable(streams.out, streams.output.stdout_bytes, max_stdout);
  std::string& tail = streams.output.stderr_bytes;
  // Bounded a call, so that a flood on stderr cannot hold the loop past its deadline.
  ReadAvailable(streams.err, tail, kStderrBytes + (64U << 10U));
  if (tail.size() > kStderrBytes) {
    tail.erase(0, tail.size() - kStderrBytes);
  }
}

void WaitForTraffic(const Streams& streams, milliseconds at_most) {
  // poll ignores entries with a negative descriptor.
  std::array<pollfd, 3> fds{{{streams.in.Get(), POLLOUT, 0},
                             {streams.out.Get(), POLLIN, 0},
                             {streams.err.Get(), POLLIN, 0}}};
  poll(fds.data(), fds.size(), static_cast<int>(at_most.count()));
}

std::string Seconds(Deadline::Clock::duration span) {
  const auto tenths = (std::chrono::duration_cast<milliseconds>(span).count() + 50) / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

/// Until the child has ended and its output is read.
Result<void> Converse(const ProcessRequest& request, Child& child, Streams& streams,
                      Deadline deadline) {
  const std::string& program = request.argv.front();
  const auto started = Deadline::Clock::now();
  while (true) {
    const bool ended = child.Ended();
    if (!streams.to_write.empty()) {
      WriteSome(streams);
    }
    ReadBoth(streams, request.max_stdout_bytes);
    if (streams.output.stdout_bytes.size() > request.max_stdout_bytes) {
      return Error{ErrorCode::kInvalidInput,
                   "'" + program + "' wrote more than " + std::to_string(request.max_stdout_bytes) +
                       " bytes and was killed",
                   ""};
    }
    if (ended) {
      return {};
    }
    if (request.interrupted != nullptr && request.interrupted->load()) {
      return Error{ErrorCode::kInterrupted, "'" + program + "' was killed: interrupted", ""};
    }
    if (deadline.Passed()) {
      return Error{ErrorCode::kTimedOut,
                   "'" + program + "' did not end within " +
                       Seconds(Deadline::Clock::now() - started) + " and was killed",
                   ""};
    }
    const bool silent = streams.out.Get() < 0 && streams.err.Get() < 0;
    WaitForTraffic(streams, std::min(deadline.Remaining(), silent ? kAfterEndOfOutput : kSlice));
  }
}

}  // namespace

Result<ProcessOutput> RunProcess(const ProcessRequest& request, Deadline deadline) {
  if (request.argv.empty() || request.argv.front().empty()) {
    return Error{ErrorCode::kInvalidInput, "no program to run was given", ""};
  }
  auto in = OpenPipe();
  auto out = OpenPipe();
  auto err = OpenPipe();
  for (const auto* pipe : {&in, &out, &err}) {
    if (!*pipe) {
      return pipe->error();
    }
  }
  std::vector<std::string> argv = request.argv;
  std::vector<std::string> environment = Environment(request.extra_env);
  const SpawnSettings settings(*in, *out, *err);
  pid_t pid = 0;
  const int failed =
      posix_spawnp(&pid, argv.front().c_str(), settings.Actions(), settings.Attributes(),
                   Pointers(argv).data(), Pointers(environment).data());
  if (failed != 0) {
    return SpawnError(argv.front(), failed, environment);
  }
  Child child(pid);
  in->read_end = FileDescriptor();
  out->write_end = FileDescriptor();
  err->write_end = FileDescriptor();
  Streams streams{std::move(in->write_end),
                  std::move(out->read_end),
                  std::move(err->read_end),
                  request.stdin_bytes,
                  {}};
  MakeNonBlocking(streams.in);
  MakeNonBlocking(streams.out);
  MakeNonBlocking(streams.err);
  if (streams.to_write.empty()) {
    streams.in = FileDescriptor();
  }
  if (auto done = Converse(request, child, streams, deadline); !done) {
    return std::move(done).error();
  }
  ProcessOutput output = std::move(streams.output);
  const bool exited = WIFEXITED(child.Status());
  output.exit_code = exited ? WEXITSTATUS(child.Status()) : -1;
  output.term_signal = exited ? 0 : WTERMSIG(child.Status());
  return output;
}

std::string OneLine(const std::string& text, std::size_t max_chars) {
  std::string line;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == '\x7f';
    if (!blank) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  if (!line.empty() && line.back() == ' ') {
    line.pop_back();
  }
  if (line.size() > max_chars) {
    line = line.substr(0, max_chars) + "...";
  }
  return line;
}

}  // namespace dlc
