#include "probes/control/launcher/probe_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string_view>
#include <utility>

extern char** environ;

namespace dlc {
namespace {

constexpr std::size_t kMaxLineBytes = 64U << 20U;
constexpr std::size_t kErrTailBytes = 2048;
// In the child: 0, 1 and 2 as usual, then these.
constexpr int kSecretFd = 3;
constexpr int kListenFd = 4;
constexpr int kFirstFreeFd = 10;  // sources are moved above what they are copied to

Error Failed(const std::string& what) {
  return {ErrorCode::kUnavailable, what + ": " + strerrordesc_np(errno), ""};
}

/// Closes what is still in it.
struct Fds {
  std::array<int, 8> all{-1, -1, -1, -1, -1, -1, -1, -1};
  int& plan = all[0];
  int& out_read = all[1];
  int& out_write = all[2];
  int& err_read = all[3];
  int& err_write = all[4];
  int& secret_read = all[5];
  int& listen = all[6];
  int& netns = all[7];

  Fds() = default;
  Fds(const Fds&) = delete;
  Fds& operator=(const Fds&) = delete;
  ~Fds() {
    for (const int fd : all) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }
};

int Raised(int fd) {
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  close(fd);
  return high;
}

bool MakePipe(int& reading, int& writing) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return false;
  }
  reading = Raised(ends[0]);
  writing = Raised(ends[1]);
  return reading >= 0 && writing >= 0;
}

/// Memory, not a file: nothing to clean up, and no pipe to fill up.
int PlanFd(const std::string& text) {
  const int fd = memfd_create("dlc-check-plan", MFD_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      lseek(fd, 0, SEEK_SET) != 0) {
    return -1;
  }
  return Raised(fd);
}

Result<void> Prepare(const ProbeStart& start, Fds& fds) {
  fds.plan = PlanFd(start.plan_json);
  if (fds.plan < 0 || !MakePipe(fds.out_read, fds.out_write) ||
      !MakePipe(fds.err_read, fds.err_write)) {
    return Failed("cannot make the pipes of a rank");
  }
  if (!start.secret.empty()) {
    int secret_write = -1;
    const bool made = MakePipe(fds.secret_read, secret_write);
    const bool written = made && write(secret_write, start.secret.data(), start.secret.size()) ==
                                     static_cast<ssize_t>(start.secret.size());
    if (secret_write >= 0) {
      close(secret_write);
    }
    if (!written) {
      return Failed("cannot hand over the run's secret");
    }
  }
  if (start.listen_fd >= 0) {
    fds.listen = fcntl(start.listen_fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  }
  if (start.netns_fd >= 0) {
    fds.netns = fcntl(start.netns_fd, F_DUPFD_CLOEXEC, kFirstFreeFd);
  }
  fcntl(fds.out_read, F_SETFL, O_NONBLOCK);
  fcntl(fds.err_read, F_SETFL, O_NONBLOCK);
  return {};
}

/// Ours, without what tells another rank who it is, and the given ones.
std::vector<std::string> Environment(const ProbeStart& start) {
  std::map<std::string, std::string> added = start.environment;
  if (!start.secret.empty()) {
    added["DLC_CHECK_RUN_SECRET_FD"] = std::to_string(kSecretFd);
  }
  if (start.listen_fd >= 0) {
    added["DLC_CHECK_LISTEN_FD"] = std::to_string(kListenFd);
  }
  std::vector<std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view view = *entry;
    const std::string name(view.substr(0, view.find('=')));
    const bool replaced = added.find(name) != added.end() || name == "DLC_CHECK_LISTEN_FD" ||
                          name == "DLC_CHECK_RUN_SECRET_FD" ||
                          (name == "DLC_CHECK_RUN_SECRET" && !start.secret.empty());
    if (!replaced) {
      variables.emplace_back(view);
    }
  }
  for (const auto& [name, value] : added) {
    std::string& variable = variables.emplace_back(name);
    variable += "=";
    variable += value;
  }
  return variables;
}

/// Between fork and exec: system calls only, for other threads may hold any lock.
[[noreturn]] void Become(const Fds& fds, const char* program, char* const* argv, char* const* envp,
                         pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  const bool placed =
      getppid() == parent && (fds.netns < 0 || setns(fds.netns, CLONE_NEWNET) == 0) &&
      dup2(fds.plan, STDIN_FILENO) >= 0 && dup2(fds.out_write, STDOUT_FILENO) >= 0 &&
      dup2(fds.err_write, STDERR_FILENO) >= 0 &&
      (fds.secret_read < 0 || dup2(fds.secret_read, kSecretFd) >= 0) &&
      (fds.listen < 0 || dup2(fds.listen, kListenFd) >= 0);
  if (placed) {
    execve(program, argv, envp);
  }
  const char* why = strerrordesc_np(errno);
  if (write(STDERR_FILENO, why, strlen(why)) < 0) {
    _exit(126);
  }
  _exit(127);
}

}  // namespace

Result<ProbeProcess> ProbeProcess::Start(const ProbeStart& start) {
  Fds fds;
  if (auto ready = Prepare(start, fds); !ready) {
    return ready.error();
  }
  std::vector<std::string> arguments = {start.program, "run", "--plan", "-"};
  std::vector<std::string> variables = Environment(start);
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> list;
    list.reserve(texts.size() + 1);
    for (std::string& text : texts) {
      list.push_back(text.data());
    }
    list.push_back(nullptr);
    return list;
  };
  const std::vector<char*> argv = pointers(arguments);
  const std::vector<char*> envp = pointers(variables);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return Failed("cannot start rank " + std::to_string(start.rank));
  }
  if (pid == 0) {
    Become(fds, start.program.c_str(), argv.data(), envp.data(), parent);
  }
  setpgid(pid, pid);
  return ProbeProcess(start.rank, pid, std::exchange(fds.out_read, -1),
                      std::exchange(fds.err_read, -1));
}

ProbeProcess::ProbeProcess(ProbeProcess&& other) noexcept
    : rank_(other.rank_),
      pid_(std::exchange(other.pid_, -1)),
      out_fd_(std::exchange(other.out_fd_, -1)),
      err_fd_(std::exchange(other.err_fd_, -1)),
      ended_(other.ended_),
      wait_status_(other.wait_status_),
      out_(std::move(other.out_)),
      err_(std::move(other.err_)),
      output_(std::move(other.output_)) {}

// NOLINTNEXTLINE(bugprone-exception-escape): see the declaration
ProbeProcess::~ProbeProcess() {
  if (pid_ > 0) {
    Kill();
  }
  for (const int fd : {out_fd_, err_fd_}) {
    if (fd >= 0) {
      close(fd);
    }
  }
}

namespace {

/// Appends what is there; closes the descriptor at its end.
void Drain(int& fd, std::string& buffer) {
  char chunk[65'536];
  while (fd >= 0) {
    const ssize_t count = read(fd, chunk, sizeof chunk);
    if (count > 0) {
      buffer.append(chunk, static_cast<std::size_t>(count));
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      close(std::exchange(fd, -1));
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

std::optional<std::string> TakeFirstLine(std::string& buffer) {
  const std::size_t end = buffer.find('\n');
  if (end == std::string::npos) {
    return std::nullopt;
  }
  std::string line = buffer.substr(0, end);
  buffer.erase(0, end + 1);
  return line;
}

}  // namespace

void ProbeProcess::ReadOut(const std::function<void(RankEvent)>& on_event) {
  Drain(out_fd_, out_);
  while (auto line = TakeFirstLine(out_)) {
    output_.TakeOut(*line, on_event);
  }
  if (out_.size() > kMaxLineBytes) {
    out_.clear();
    output_.Fail(
        {ErrorCode::kInternal, "rank " + std::to_string(rank_) + " wrote a line without end", ""});
    Signal(SIGTERM);
  }
}

void ProbeProcess::ReadErr(const std::function<void(RankEvent)>& on_event) {
  Drain(err_fd_, err_);
  while (auto line = TakeFirstLine(err_)) {
    output_.TakeErr(std::move(*line), on_event);
  }
  if (err_.size() > kErrTailBytes) {
    err_.erase(0, err_.size() - kErrTailBytes);
  }
}

bool ProbeProcess::Reap(const std::function<void(RankEvent)>& on_event) {
  if (!ended_ && waitpid(pid_, &wait_status_, WNOHANG) == pid_) {
    ended_ = true;
    ReadOut(on_event);
    ReadErr(on_event);
    for (int* fd : {&out_fd_, &err_fd_}) {
      if (*fd >= 0) {
        close(std::exchange(*fd, -1));
      }
    }
  }
  return ended_;
}

void ProbeProcess::Signal(int signal) const {
  if (!ended_) {
    kill(pid_, signal);
  }
}

void ProbeProcess::Kill() {
  constexpr std::chrono::milliseconds kDeathPatience{3'000};
  constexpr int kPauseMs = 5;
  const Deadline deadline = Deadline::After(kDeathPatience);
  if (!ended_) {
    kill(-pid_, SIGKILL);
  }
  while (!Reap([](const RankEvent&) {}) && !deadline.Passed()) {
    poll(nullptr, 0, kPauseMs);
  }
}

Result<RankRun> ProbeProcess::Document() const {
  std::string end = "does not die: it waits in the kernel";
  if (ended_) {
    end = WIFSIGNALED(wait_status_)
              ? KilledText(WTERMSIG(wait_status_))
              : "ended with code " + std::to_string(WEXITSTATUS(wait_status_)) + " and no document";
  }
  return output_.Document(end, err_);
}

}  // namespace dlc
