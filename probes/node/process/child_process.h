#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "probes/node/unique_fd.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// How a process ended: one of the two is set.
struct ExitStatus {
  int exit_code = -1;  ///< -1 when a signal ended it
  int signal = 0;

  bool operator==(const ExitStatus&) const = default;
};

/// "SIGSEGV"; "signal 99" when it has no name.
std::string SignalName(int signal);

/// A forked child that cannot outlive us: it leads its own process group, it gets SIGKILL when the
/// thread that forked it ends, and the destructor kills and reaps the group.
class ChildProcess {
 public:
  /// `body` runs in the child; its return value is the exit code. There, signals are as after
  /// start-up and stdout is joined to stderr, so that a library's chatter cannot mix with ours.
  static Result<ChildProcess> Fork(const std::function<int()>& body);

  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  /// Readable when the child has ended; -1 where the kernel or a seccomp profile has no pidfd: then
  /// poll with a short timeout and ask HasEnded().
  int end_fd() const { return end_fd_.get(); }
  bool HasEnded();
  /// Whether the child ended before the deadline.
  bool WaitFor(Deadline deadline);
  /// SIGKILL to the whole group, and reaps the child. False when it is still there seconds later:
  /// stuck in the kernel, mostly on a file server that does not answer.
  bool Kill();
  /// Precondition: HasEnded() said true, or Kill() was called.
  const ExitStatus& status() const { return status_; }

 private:
  explicit ChildProcess(pid_t pid);

  pid_t pid_;
  UniqueFd end_fd_;
  bool reaped_ = false;
  ExitStatus status_;
};

}  // namespace dlc
