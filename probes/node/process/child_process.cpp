#include "probes/node/process/child_process.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

namespace dlc {
namespace {

constexpr int kMillisecondsBetweenLooks = 20;  // only where there is no pidfd
/// A process that waits for a dead file server may not even die of SIGKILL.
constexpr std::chrono::milliseconds kDeathPatience{3'000};

[[noreturn]] void RunChild(const std::function<int()>& body, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died between fork and prctl; then no signal will ever come.
  if (getppid() != parent) {
    _exit(1);
  }
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE, SIGCHLD, SIGHUP}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  dup2(STDERR_FILENO, STDOUT_FILENO);
  int code = 1;
  try {
    code = body();
  } catch (const std::exception& e) {
    const std::string text = std::string("dlc-probe: bug: uncaught exception: ") + e.what() + "\n";
    if (write(STDERR_FILENO, text.data(), text.size()) < 0) {
      code = 2;
    }
  }
  _exit(code);
}

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

Result<ChildProcess> ChildProcess::Fork(const std::function<int()>& body) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return Error{ErrorCode::kUnavailable,
                 std::string("cannot start a process: ") + strerrordesc_np(errno),
                 "look at the limit on processes (ulimit -u, pids.max) and at free memory"};
  }
  if (pid == 0) {
    RunChild(body, parent);
  }
  setpgid(pid, pid);  // whoever comes first; after this line the group is there to be killed
  return ChildProcess(pid);
}

ChildProcess::ChildProcess(pid_t pid)
    : pid_(pid), end_fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      end_fd_(std::move(other.end_fd_)),
      reaped_(other.reaped_),
      status_(other.status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0) {
    Kill();
  }
}

bool ChildProcess::HasEnded() {
  if (reaped_) {
    return true;
  }
  siginfo_t info{};
  // WNOWAIT: a reaped pid may be given to another process, and Kill() must still own the group.
  if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid != pid_) {
    return false;
  }
  const bool exited = info.si_code == CLD_EXITED;
  status_ = exited ? ExitStatus{info.si_status, 0} : ExitStatus{-1, info.si_status};
  return true;
}

bool ChildProcess::WaitFor(Deadline deadline) {
  while (!HasEnded()) {
    const auto left =
        static_cast<int>(std::min<std::int64_t>(deadline.Remaining().count(), 1'000'000));
    if (left == 0) {
      return false;
    }
    pollfd end{end_fd_.get(), POLLIN, 0};
    poll(&end, 1, end_fd_ ? left : std::min(left, kMillisecondsBetweenLooks));
  }
  return true;
}

bool ChildProcess::Kill() {
  if (reaped_) {
    return true;
  }
  kill(-pid_, SIGKILL);
  if (!WaitFor(Deadline::After(kDeathPatience))) {
    status_ = {-1, SIGKILL};
    return false;
  }
  reaped_ = waitpid(pid_, nullptr, WNOHANG) == pid_;
  return true;
}

}  // namespace dlc
