#include "probes/node/framework/run_framework.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

#include "probes/node/nccl/nccl_surroundings.h"
#include "probes/node/unique_fd.h"
#include "probes/observations/ranks_json.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kTailBytes = 64U << 10U;
constexpr std::size_t kTailLines = 30;
constexpr std::size_t kLongestLine = 400;
/// Between looks at the program's output and at the other ranks.
constexpr milliseconds kLook{200};
/// A meeting point on a busy host may take its time.
constexpr milliseconds kAnswer{10'000};
constexpr milliseconds kTell{10'000};

Error Failed(const std::string& what) {
  return {ErrorCode::kUnavailable, what + ": " + strerrordesc_np(errno), ""};
}

/// Reads what the program prints, so that it is never held up, and asks after the other ranks.
class Watcher {
 public:
  Watcher(int output, int stop, Exchange& exchange)
      : output_(output), stop_(stop), exchange_(exchange), thread_([this] { Watch(); }) {}
  ~Watcher() { End(); }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// When the program has ended. Then the members below are whole.
  void End() {
    ended_ = true;
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  const std::string& Tail() const { return tail_; }
  const std::optional<Error>& Lost() const { return lost_; }

 private:
  void Watch() {
    while (!ended_) {
      Drain(static_cast<int>(kLook.count()));
      if (exchange_.size() > 1 && !lost_ && !ended_) {
        if (auto fine = exchange_.LostSoFar(Deadline::After(kAnswer)); !fine) {
          lost_ = fine.error();
          if (write(stop_, "x", 1) != 1) {
            lost_->message += " (and the framework's process could not be stopped)";
          }
        }
      }
    }
    Drain(0);
  }
  void Drain(int patience) {
    pollfd output{output_, POLLIN, 0};
    while (poll(&output, 1, patience) == 1) {
      char chunk[16384];
      const ssize_t count = read(output_, chunk, sizeof chunk);
      if (count <= 0) {
        // Closed: nothing more comes, and the look at the others needs its pace.
        poll(nullptr, 0, patience);
        return;
      }
      tail_.append(chunk, static_cast<std::size_t>(count));
      if (tail_.size() > 2 * kTailBytes) {
        tail_.erase(0, tail_.size() - kTailBytes);
      }
      patience = 0;
    }
  }

  int output_;
  int stop_;
  Exchange& exchange_;
  std::atomic<bool> ended_ = false;
  std::string tail_;
  std::optional<Error> lost_;
  std::thread thread_;  // last: it uses the others
};

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, std::min(end - at, kLongestLine));
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      lines.push_back(std::move(line));
    }
    at = end + 1;
  }
  return lines;
}

/// In the child; returns only when there is no such program.
Error Execute(const FrameworkLaunch& launch, int program, int result, int output,
              const NcclLogCapture* log) {
  for (const auto& [name, value] : launch.environment) {
    setenv(name.c_str(), value.c_str(), 1);
  }
  if (log != nullptr) {
    for (const NcclSetting& one : log->Settings()) {
      setenv(one.name.c_str(), one.value.c_str(), 1);
    }
    fcntl(log->Descriptor(), F_SETFD, 0);
  }
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  for (const int kept : {program, result, launch.job.listen_fd}) {
    if (kept > STDERR_FILENO) {
      fcntl(kept, F_SETFD, 0);
    }
  }
  const std::string file = "/proc/self/fd/" + std::to_string(program);
  const std::string job = FactsToJson(launch.job);
  const std::string fd = std::to_string(result);
  execlp(launch.python.c_str(), launch.python.c_str(), file.c_str(), job.c_str(), fd.c_str(),
         static_cast<char*>(nullptr));
  const int reason = errno;
  return {reason == ENOENT ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
          "cannot start " + launch.python + ": " + strerrordesc_np(reason),
          "name the image's python in the config (framework: {python: PATH})"};
}

Result<UniqueFd> ProgramFile(const std::string& text) {
  UniqueFd file(memfd_create("train_framework.py", MFD_CLOEXEC));
  if (!file || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Failed("cannot hold the framework's program");
  }
  return file;
}

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

Result<Pipe> MakePipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return Failed("cannot make a pipe");
  }
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

void Adopt(const ExperimentReport& report, FrameworkProcess& process) {
  process.how = report.end.how;
  process.exit_code = report.end.exit_code;
  process.signal_name = report.end.signal_name;
  process.out_of_memory = report.end.out_of_memory;
  process.seconds = report.end.seconds;
  process.last_progress = report.end.last_progress;
  if (!report.result) {
    process.seen = report.result.error();
    return;
  }
  auto run = ParseFacts<FrameworkRun>(*report.result);
  if (!run) {
    process.seen = Error{
        ErrorCode::kInternal,
        "the framework's program gave a result that cannot be read: " + run.error().message, ""};
    return;
  }
  process.seen = std::move(run).value();
}

/// The error of a program that ended without a result, in its own words.
void Explain(const Watcher& watcher, FrameworkProcess& process) {
  if (process.seen.seen()) {
    return;
  }
  std::vector<std::string> lines = LinesOf(watcher.Tail());
  process.last_words = LastWords(lines);
  if (lines.size() > kTailLines) {
    lines.erase(lines.begin(), lines.end() - kTailLines);
  }
  process.output_tail = std::move(lines);
  Error error = process.seen.error();
  if (watcher.Lost() && process.how == "interrupted") {
    process.how = "stopped";
    error = Error{ErrorCode::kUnavailable, "stopped, as " + watcher.Lost()->message, ""};
  } else if (!process.last_words.empty() && process.how != "not-started") {
    error.message += "; its last words: " + process.last_words;
  }
  process.seen = std::move(error);
}

/// What its NCCL wrote, however it ended.
void ReadNcclLog(const std::optional<Result<NcclLogCapture>>& log, FrameworkProcess& process) {
  if (!log) {
    process.nccl_log = NotLookedAt{"it was to train on the CPU, without NCCL", ""};
  } else if (!*log) {
    process.nccl_log = log->error();
  } else {
    auto seen = (*log)->Read();
    process.nccl_log = std::move(seen.log);
    process.nccl_log_digest = seen.digest;
  }
}

}  // namespace

std::string LastWords(const std::vector<std::string>& lines) {
  const auto bare = [](const std::string& line) {
    const std::size_t end = line.find("]: ");
    return line.starts_with("[rank") && end != std::string::npos ? line.substr(end + 3) : line;
  };
  for (std::size_t at = lines.size(); at-- > 0;) {
    if (bare(lines[at]) == "Traceback (most recent call last):") {
      for (std::size_t next = at + 1; next < lines.size(); ++next) {
        if (std::string line = bare(lines[next]); !line.starts_with(' ')) {
          return line;
        }
      }
    }
  }
  return lines.empty() ? "" : bare(lines.back());
}

FrameworkProcess RunFramework(const FrameworkLaunch& launch, Exchange& exchange, Deadline deadline,
                              const Progress& progress) {
  FrameworkProcess process;
  process.name = launch.name;
  process.how = "not-started";
  auto program = ProgramFile(launch.program);
  auto output = MakePipe();
  auto stop = MakePipe();
  if (!program || !output || !stop) {
    process.seen = !program ? program.error() : !output ? output.error() : stop.error();
    return process;
  }
  std::optional<Result<NcclLogCapture>> log;
  if (launch.job.device == "cuda") {
    log = NcclLogCapture::ForChild();
  }
  Watcher watcher(output->read.get(), stop->write.get(), exchange);
  const auto body = [&](const Progress& frames) -> Result<std::string> {
    return Execute(launch, program->get(), frames.fd(), output->write.get(),
                   log && *log ? &**log : nullptr);
  };
  const auto on_progress = [&](const std::string& line) {
    progress.Say(launch.name + ": " + line);
  };
  const ExperimentReport report =
      RunExperiment(body, {deadline, on_progress, stop->read.get(), 16U << 20U});
  watcher.End();
  Adopt(report, process);
  Explain(watcher, process);
  ReadNcclLog(log, process);
  if (!process.seen.seen() && process.how != "stopped") {
    exchange.TellStopped(process.seen.error().message, Deadline::After(kTell));
  }
  return process;
}

}  // namespace dlc
