#include "probes/node/process/experiment.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "probes/node/bytes.h"
#include "probes/node/process/child_process.h"
#include "probes/node/unique_fd.h"

namespace dlc {
namespace {

// Frames on the pipe: kind, u32 length, payload.
constexpr char kProgress = 'P';
constexpr char kResult = 'R';
constexpr char kError = 'E';
constexpr std::size_t kHeaderBytes = 5;
constexpr std::size_t kMaxProgressBytes = 400;

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written <= 0) {
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool WriteFrame(int fd, char kind, std::string_view payload) {
  ByteWriter frame;
  frame.U8(static_cast<std::uint8_t>(kind));
  frame.Text(payload);
  return WriteAll(fd, frame.Take());
}

int RunBody(const ExperimentBody& body, int fd) {
  const Result<std::string> result = body(Progress(fd));
  if (result) {
    return WriteFrame(fd, kResult, *result) ? 0 : 1;
  }
  ByteWriter error;
  error.U8(static_cast<std::uint8_t>(result.error().code));
  error.Text(result.error().message);
  error.Text(result.error().hint);
  return WriteFrame(fd, kError, error.Take()) ? 0 : 1;
}

/// The reading end: frames into a report.
class FrameReader {
 public:
  FrameReader(const ExperimentOptions& options, ExperimentEnd& end)
      : options_(options), end_(end) {}

  /// False at the end of the stream, or when the child writes what no child of ours would.
  bool ReadSome(int fd) {
    char chunk[65536];
    const ssize_t count = read(fd, chunk, sizeof chunk);
    if (count < 0) {
      return errno == EINTR || errno == EAGAIN;
    }
    buffer_.append(chunk, static_cast<std::size_t>(count));
    return count > 0 && TakeFrames();
  }

  std::optional<Result<std::string>> result;

 private:
  bool TakeFrames() {
    while (buffer_.size() >= kHeaderBytes) {
      ByteReader header(std::string_view(buffer_).substr(1, 4));
      const std::size_t length = header.U32();
      const std::size_t limit =
          buffer_[0] == kProgress ? kMaxProgressBytes : options_.max_result_bytes;
      if (length > limit) {
        result = Error{ErrorCode::kInternal,
                       "the experiment's result of " + std::to_string(length) +
                           " bytes is over the limit of " + std::to_string(limit),
                       ""};
        return false;
      }
      if (buffer_.size() < kHeaderBytes + length) {
        return true;
      }
      Take(buffer_[0], std::string_view(buffer_).substr(kHeaderBytes, length));
      buffer_.erase(0, kHeaderBytes + length);
    }
    return true;
  }

  void Take(char kind, std::string_view payload) {
    if (kind == kProgress) {
      end_.last_progress = payload;
      if (options_.on_progress) {
        options_.on_progress(end_.last_progress);
      }
    } else if (kind == kResult) {
      result = std::string(payload);
    } else {
      ByteReader reader(payload);
      const auto code = static_cast<ErrorCode>(
          std::min(reader.U8(), static_cast<std::uint8_t>(ErrorCode::kInternal)));
      std::string message(reader.Text());
      result = Error{code, std::move(message), std::string(reader.Text())};
    }
  }

  const ExperimentOptions& options_;
  ExperimentEnd& end_;
  std::string buffer_;
};

/// Of this container's cgroup; -1 where it cannot be read.
std::int64_t OomKills() {
  std::ifstream events("/sys/fs/cgroup/memory.events");
  std::string key;
  std::int64_t value = 0;
  while (events >> key >> value) {
    if (key == "oom_kill") {
      return value;
    }
  }
  return -1;
}

enum class Ended : std::uint8_t { kByItself, kTimedOut, kInterrupted };

Ended Watch(ChildProcess& child, int pipe, FrameReader& frames, const ExperimentOptions& options) {
  constexpr std::int64_t kLook = 20;  // milliseconds, only where there is no pidfd
  bool open = true;
  while (true) {
    const bool ended = child.HasEnded();
    const std::int64_t left = options.deadline.Remaining().count();
    if (!ended && left == 0) {
      return Ended::kTimedOut;
    }
    const std::int64_t wait = ended ? 0 : child.end_fd() < 0 ? std::min(left, kLook) : left;
    pollfd fds[] = {
        {open ? pipe : -1, POLLIN, 0}, {child.end_fd(), POLLIN, 0}, {options.stop_fd, POLLIN, 0}};
    const int ready = poll(fds, 3, static_cast<int>(std::min<std::int64_t>(wait, 1'000'000)));
    if (fds[0].revents != 0 && ready > 0) {
      open = frames.ReadSome(pipe);
    } else if (ended) {
      return Ended::kByItself;  // and the pipe is drained
    }
    if (fds[2].revents != 0 && ready > 0) {
      return Ended::kInterrupted;
    }
    if (frames.result && !open) {
      return Ended::kByItself;
    }
  }
}

void Describe(Ended ended, bool gone, std::int64_t oom_kills, const ExitStatus& status,
              ExperimentEnd& end) {
  if (ended == Ended::kTimedOut) {
    end.how = "timed-out";
  } else if (ended == Ended::kInterrupted) {
    end.how = "interrupted";
  } else if (status.signal != 0) {
    end.how = "killed";
    end.signal = status.signal;
    end.signal_name = SignalName(status.signal);
    end.out_of_memory = status.signal == SIGKILL && oom_kills > 0;
  } else {
    end.how = "exited";
    end.exit_code = status.exit_code;
  }
  end.stuck_in_kernel = !gone;
}

Error ErrorOf(const ExperimentEnd& end) {
  const std::string last = end.last_progress.empty() ? "" : "; last progress: " + end.last_progress;
  if (end.how == "timed-out") {
    return {
        ErrorCode::kTimedOut,
        "the experiment did not end before its deadline" +
            std::string(end.stuck_in_kernel ? " and does not die: it waits in the kernel" : "") +
            last,
        ""};
  }
  if (end.how == "interrupted") {
    return {ErrorCode::kInterrupted, "the experiment was interrupted" + last, ""};
  }
  if (end.how == "killed") {
    return {ErrorCode::kUnavailable,
            "the experiment was killed by " + end.signal_name +
                (end.out_of_memory ? ": out of memory, says the cgroup" : "") + last,
            end.signal == SIGKILL && !end.out_of_memory
                ? "we did not send it: look for the OOM killer (dmesg, memory limit)"
                : ""};
  }
  return {
      ErrorCode::kUnavailable,
      "the experiment exited with code " + std::to_string(end.exit_code) + " and no result" + last,
      ""};
}

}  // namespace

void Progress::Say(std::string_view line) const {
  WriteFrame(fd_, kProgress, line.substr(0, kMaxProgressBytes));
}

ExperimentReport RunExperiment(const ExperimentBody& body, const ExperimentOptions& options) {
  ExperimentReport report{Error{}, {}};
  const auto start = Deadline::Clock::now();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    report.result = Error{ErrorCode::kUnavailable,
                          std::string("cannot make a pipe: ") + strerrordesc_np(errno), ""};
    report.end.how = "not-started";
    return report;
  }
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  fcntl(reading.get(), F_SETFL, O_NONBLOCK);
  const std::int64_t oom_kills = OomKills();
  auto child = ChildProcess::Fork([&] { return RunBody(body, writing.get()); });
  if (!child) {
    report.result = child.error();
    report.end.how = "not-started";
    return report;
  }
  writing.Reset();
  FrameReader frames(options, report.end);
  const Ended ended = Watch(*child, reading.get(), frames, options);
  const bool gone = child->Kill();
  report.end.seconds = std::chrono::duration<double>(Deadline::Clock::now() - start).count();
  if (frames.result && ended == Ended::kByItself) {
    report.end.how = "finished";
    report.result = std::move(*frames.result);
    return report;
  }
  Describe(ended, gone, OomKills() - oom_kills, child->status(), report.end);
  report.result = ErrorOf(report.end);
  return report;
}

}  // namespace dlc
