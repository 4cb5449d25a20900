#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "probes/control/launcher/process_launcher.h"

namespace dlc {

/// Ranks that share a network namespace.
struct LocalRankGroup {
  int ranks = 0;
  std::string network_namespace;  ///< a name of `ip netns`; empty: ours
};

struct LocalLauncherOptions {
  std::string probe;  ///< path of dlc-probe; empty: beside the running program
  /// Together they must hold all ranks; empty: one group in our own network namespace.
  std::vector<LocalRankGroup> groups;
  /// Where rank 0 is reached; needed when rank 0 is in another network namespace, else a free port
  /// of loopback.
  std::string master_address;
  int master_port = 0;
};

/// Target `local`: N child processes of this host.
class LocalLauncher : public ProcessLauncher {
 public:
  explicit LocalLauncher(LocalLauncherOptions options) : options_(std::move(options)) {}

  std::string_view name() const override { return "local"; }
  Result<void> Start(const LaunchRequest& request, Deadline deadline) override;

 private:
  Result<void> StartAll(const std::string& program, int listen_fd, int port);

  LocalLauncherOptions options_;
};

}  // namespace dlc
