#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "probes/observations/deadline.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// What an experiment says while it runs. The last line is kept when it dies.
class Progress {
 public:
  explicit Progress(int fd) : fd_(fd) {}
  /// At most 400 bytes of it travel. Never blocks the experiment for long and never fails it.
  void Say(std::string_view line) const;
  /// For a body that becomes another program, which writes the frames itself: 'P' (progress) or 'R'
  /// (result), the length in four bytes, little endian, and that many bytes.
  int fd() const { return fd_; }

 private:
  int fd_;
};

/// Runs in the child. The bytes are the result.
using ExperimentBody = std::function<Result<std::string>(const Progress&)>;

struct ExperimentOptions {
  Deadline deadline;
  std::function<void(const std::string&)> on_progress;  ///< may be empty
  int stop_fd = -1;                                     ///< readable: give up ("interrupted")
  std::size_t max_result_bytes = 64U << 20U;
};

struct ExperimentReport {
  Result<std::string> result;
  ExperimentEnd end;
};

/// Runs `body` in a child process of its own. Whatever becomes of it (an Error, an exit, a signal,
/// the deadline), the caller gets a report and nothing of the child's process group stays.
ExperimentReport RunExperiment(const ExperimentBody& body, const ExperimentOptions& options);

}  // namespace dlc
