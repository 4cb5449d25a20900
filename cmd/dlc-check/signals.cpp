#include "cmd/dlc-check/signals.h"

#include <csignal>

namespace dlc {
namespace {

static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free,
              "both are written in a signal handler");
// A signal handler can reach nothing but what has static storage.
std::atomic<int> received_signal{0};
std::atomic<bool> interrupted{false};

void OnSignal(int signal) {
  received_signal.store(signal, std::memory_order_relaxed);
  interrupted.store(true, std::memory_order_relaxed);
}

void HandleOnce() {
  struct sigaction action {};
  action.sa_handler = OnSignal;
  sigemptyset(&action.sa_mask);
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

void InstallSignalHandlers() {
  HandleOnce();
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, nullptr);
}

void ExpectSignalAgain() {
  interrupted.store(false, std::memory_order_relaxed);
  HandleOnce();
}

const std::atomic<bool>& Interrupted() {
  return interrupted;
}

int ReceivedSignal() {
  return received_signal.load(std::memory_order_relaxed);
}

}  // namespace dlc
