#include "cmd/dlc-probe/leash.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iostream>

namespace dlc {
namespace {

constexpr int kSignalBase = 128;

sigset_t Passed() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD}) {
    sigaddset(&signals, signal);
  }
  return signals;
}

int CodeOf(int status) {
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

int RunLeashed(const std::function<int()>& body) {
  const sigset_t signals = Passed();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    std::cerr << "dlc-probe: cannot fork: " << strerrordesc_np(errno) << "\n";
    return 1;
  }
  if (child == 0) {
    setsid();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) {
      return kSignalBase + SIGTERM;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return body();
  }
  // What the other end of a pipe sees of the child is its end, not ours.
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  dup2(null, STDIN_FILENO);
  dup2(null, STDOUT_FILENO);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    int signal = 0;
    sigwait(&signals, &signal);
    if (signal != SIGCHLD) {
      kill(child, signal);
    }
  }
  return CodeOf(status);
}

}  // namespace dlc
