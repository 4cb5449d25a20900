#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "probes/control/kubernetes/exec_plugin.h"
#include "probes/control/kubernetes/kube_access.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What one request shows of who asks.
struct KubeCredential {
  std::string authorization;  ///< "Bearer ...", or empty
  TlsIdentity identity;

  bool operator==(const KubeCredential&) const = default;
};

/// Gives each request the credential of its moment: a token file is read again, an exec plugin is
/// run again when its credential has run out or was refused. Safe for several threads; one plugin
/// runs at a time.
class KubeCredentials {
 public:
  using Clock = std::function<std::chrono::system_clock::time_point()>;

  explicit KubeCredentials(KubeUser user, const std::atomic<bool>* interrupted = nullptr,
                           Clock clock = std::chrono::system_clock::now);

  Result<KubeCredential> Get(Deadline deadline);
  /// After a 401 for `refused`: another credential than that, or nothing when there is none. The
  /// plugin is not run again where another thread has just done so.
  Result<std::optional<KubeCredential>> Renew(const KubeCredential& refused, Deadline deadline);

  /// "FILE: line L: user 'x'"; empty without a user.
  const std::string& Where() const { return user_.where; }
  const std::vector<std::string>& Headers() const { return user_.headers; }

 private:
  Result<KubeCredential> FromFile();
  Result<void> RunPlugin(Deadline deadline);
  bool Fresh() const;
  KubeCredential OfPlugin() const;

  KubeUser user_;
  const std::atomic<bool>* interrupted_;
  Clock clock_;
  std::mutex mutex_;
  std::optional<ExecCredential> answer_;  ///< of the plugin
  std::string last_good_token_;           ///< of the file
};

}  // namespace dlc
