#include "probes/control/launcher/process_launcher.h"

#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "probes/observations/digest.h"

namespace dlc {
namespace {

using std::chrono::milliseconds;

/// Between looks at `interrupted` and at who has ended.
constexpr milliseconds kLook{50};

/// 0: something is there; else the errno of the look, ETIMEDOUT for a file system that does not
/// answer. In a process of its own: whoever waits for such a one cannot go on.
int LookAt(const std::string& file, Deadline deadline) {
  constexpr int kPauseMs = 5;
  constexpr milliseconds kLeast{2'000};  // the ranks' end may have used up all of the deadline
  deadline = Deadline::After(std::max(deadline.Remaining(), kLeast));
  const pid_t pid = fork();
  if (pid < 0) {
    return errno;
  }
  if (pid == 0) {
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      close(fd);  // nobody shall wait for our output's end because of it
    }
    struct stat info {};
    _exit(lstat(file.c_str(), &info) == 0 ? 0 : errno);
  }
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) == 0) {
    if (deadline.Passed()) {
      kill(pid, SIGKILL);  // and not waited for: it may never die
      return ETIMEDOUT;
    }
    poll(nullptr, 0, kPauseMs);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

}  // namespace

bool ProcessLauncher::Turn(milliseconds wait) {
  const auto on_event = [this](RankEvent event) { events_.push_back(std::move(event)); };
  std::vector<pollfd> fds;
  for (const RunningRank& rank : ranks_) {
    fds.push_back({rank.process.out_fd(), POLLIN, 0});
    fds.push_back({rank.process.err_fd(), POLLIN, 0});
  }
  poll(fds.data(), fds.size(), static_cast<int>(wait.count()));
  bool all_ended = true;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    ProbeProcess& process = ranks_[i].process;
    if (fds[2 * i].revents != 0) {
      process.ReadOut(on_event);
    }
    if (fds[2 * i + 1].revents != 0) {
      process.ReadErr(on_event);
    }
    all_ended = process.Reap(on_event) && all_ended;
  }
  return all_ended;
}

Result<std::optional<RankEvent>> ProcessLauncher::NextEvent(Deadline deadline) {
  bool all_ended = false;
  while (events_.empty()) {
    if (all_ended) {
      return std::optional<RankEvent>();
    }
    if (request_.interrupted != nullptr && request_.interrupted->load()) {
      return Error{ErrorCode::kInterrupted, "interrupted while ranks were running", ""};
    }
    if (deadline.Passed()) {
      return Error{ErrorCode::kTimedOut, "the ranks did not end in time", ""};
    }
    all_ended = Turn(std::min(kLook, deadline.Remaining()));
  }
  RankEvent event = std::move(events_.front());
  events_.pop_front();
  return std::optional<RankEvent>(std::move(event));
}

void ProcessLauncher::Cancel(Deadline deadline) {
  for (const RunningRank& rank : ranks_) {
    rank.process.Signal(SIGTERM);
  }
  while (!Turn(std::min(kLook, deadline.Remaining()))) {
    if (deadline.Passed()) {
      return KillAll();
    }
  }
}

void ProcessLauncher::KillAll() {
  // All at once first: ranks that see one another die one by one only have more to say.
  for (const RunningRank& rank : ranks_) {
    rank.process.Signal(SIGKILL);
  }
  for (RunningRank& rank : ranks_) {
    rank.process.Kill();
  }
}

RankRun ProcessLauncher::Collect() {
  RankRun run;
  run.size = size_;
  run.launcher = name();
  run.planted_faults = request_.plan.faults;
  std::vector<std::pair<int, Result<RankRun>>> documents;
  for (const RunningRank& ours : ranks_) {
    documents.emplace_back(ours.rank, ours.process.Document());
  }
  JoinDocuments(documents, run);
  return run;
}

std::vector<std::string> ProcessLauncher::CleanUp(Deadline deadline) {
  std::vector<std::string> left;
  if (!Turn(milliseconds(0))) {
    Cancel(deadline);
  }
  bool died_hard = false;
  for (const RunningRank& rank : ranks_) {
    died_hard = died_hard || !rank.process.Document();
    if (!rank.process.ended()) {
      left.push_back("rank " + std::to_string(rank.rank) + " still runs: it waits in the kernel");
    }
  }
  for (const std::string& directory : request_.run_directories) {
    // The last fence before a recursive removal: only what carries this run's name.
    const bool ours =
        std::filesystem::path(directory).filename() == ".dlc-check-" + request_.plan.run_id;
    std::error_code failure;
    int seen = LookAt(directory, deadline);
    if (seen == 0 && died_hard && ours) {
      std::filesystem::remove_all(directory, failure);
      seen = LookAt(directory, deadline);
    }
    if (seen != ENOENT && seen != ENOTDIR) {
      std::string line =
          directory + (seen == 0 ? " is still there"
                                 : std::string(" cannot be looked at: ") + strerrordesc_np(seen));
      if (failure) {
        line += " (" + failure.message() + ")";
      }
      left.push_back(line.append(": rm -rf '").append(directory).append("'"));
    }
  }
  return left;
}

std::string MakeRunSecret() {
  std::array<unsigned char, 32> bytes{};
  // Never short for so few bytes once the pool is ready, and it waits until then (getrandom(2)).
  while (getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  return HexText(bytes);
}

Result<std::string> FindProbe(const std::string& configured) {
  std::string program = configured;
  if (program.empty()) {
    std::error_code failure;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", failure);
    program = (self.parent_path() / "dlc-probe").string();
  }
  if (access(program.c_str(), X_OK) != 0) {
    return Error{ErrorCode::kNotFound, "no dlc-probe at " + program,
                 "put dlc-probe beside dlc-check, or name it in the config"};
  }
  return program;
}

}  // namespace dlc
