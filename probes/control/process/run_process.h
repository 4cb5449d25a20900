#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// A program to run to its end, without a shell.
struct ProcessRequest {
  /// argv[0] is searched in PATH unless it holds a slash. Never put a secret here: every user of
  /// the host can read it.
  std::vector<std::string> argv;
  std::string stdin_bytes;
  /// Added to this process's environment; an equal name replaces.
  std::map<std::string, std::string> extra_env;
  /// More than this on stdout is an Error. Of stderr the last kStderrBytes are kept.
  std::size_t max_stdout_bytes = 1U << 20U;
  /// Set from a signal handler; looked at several times a second. May be null.
  const std::atomic<bool>* interrupted = nullptr;
};

inline constexpr std::size_t kStderrBytes = 8U << 10U;

/// The program ran and ended; its exit code is the caller's to judge.
struct ProcessOutput {
  int exit_code = 0;    ///< -1 when a signal ended it
  int term_signal = 0;  ///< 0 unless a signal ended it
  std::string stdout_bytes;
  std::string stderr_bytes;

  bool operator==(const ProcessOutput&) const = default;
};

/// Runs the program in a session of its own: it has no terminal (a prompt fails instead of
/// hanging), inherits no file descriptor but 0, 1 and 2, and is killed with its whole process group
/// and reaped when the deadline passes. A grandchild that keeps stdout open is not waited for.
/// Errors: kNotFound (no such program; names PATH), kPermissionDenied (not executable), kTimedOut,
/// kInterrupted, kInvalidInput (too much output), kUnavailable (the system has no process or
/// descriptor left).
Result<ProcessOutput> RunProcess(const ProcessRequest& request, Deadline deadline);

/// stderr for an error message: trimmed, control characters and line ends made blanks, at most
/// `max_chars`.
std::string OneLine(const std::string& text, std::size_t max_chars = 300);

}  // namespace dlc
