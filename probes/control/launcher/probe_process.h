#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "probes/control/launcher/rank_output.h"
#include "probes/observations/deadline.h"
#include "probes/observations/ranks.h"
#include "probes/observations/result.h"

namespace dlc {

/// What one dlc-probe is started with.
struct ProbeStart {
  std::string program;
  int rank = 0;
  std::string plan_json;
  std::string secret;  ///< empty: the probe's environment has it
  int listen_fd = -1;  ///< rank 0's listening socket, or -1; stays the caller's
  int netns_fd = -1;   ///< network namespace to start in, or -1
  std::map<std::string, std::string> environment;  ///< in addition to ours
};

/// A dlc-probe on this host. It gets SIGTERM when the thread that started it ends (prctl(2)): a
/// killed dlc-check leaves no rank. Its own children get SIGKILL when it ends.
class ProbeProcess {
 public:
  static Result<ProbeProcess> Start(const ProbeStart& start);
  ProbeProcess(ProbeProcess&& other) noexcept;
  ProbeProcess& operator=(ProbeProcess&&) = delete;
  ProbeProcess(const ProbeProcess&) = delete;
  ProbeProcess& operator=(const ProbeProcess&) = delete;
  /// Kills and reaps.
  // NOLINTNEXTLINE(bugprone-exception-escape): only when memory has run out, where ending is right
  ~ProbeProcess();

  /// To poll: stdout, stderr (-1 once closed).
  int out_fd() const { return out_fd_; }
  int err_fd() const { return err_fd_; }
  /// Reads what is there and turns it into events.
  void ReadOut(const std::function<void(RankEvent)>& on_event);
  void ReadErr(const std::function<void(RankEvent)>& on_event);
  /// Whether it has ended; reaps it, after taking in what it wrote last.
  bool Reap(const std::function<void(RankEvent)>& on_event);
  bool ended() const { return ended_; }
  void Signal(int signal) const;
  /// SIGKILL, and reaps if it dies within seconds.
  void Kill();

  /// The document that it wrote, or what became of it: "rank 2 was killed by SIGKILL ...".
  Result<RankRun> Document() const;

 private:
  ProbeProcess(int rank, pid_t pid, int out_fd, int err_fd)
      : rank_(rank), pid_(pid), out_fd_(out_fd), err_fd_(err_fd), output_(rank) {}

  int rank_;
  pid_t pid_;
  int out_fd_;
  int err_fd_;
  bool ended_ = false;
  int wait_status_ = 0;
  std::string out_;
  std::string err_;
  RankOutput output_;
};

}  // namespace dlc
