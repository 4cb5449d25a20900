#pragma once

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "probes/control/http/http_message.h"
#include "probes/control/kubernetes/kube_access.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What a plugin answered.
struct ExecCredential {
  std::string token;
  TlsIdentity identity;
  std::optional<std::chrono::system_clock::time_point> expires;

  bool operator==(const ExecCredential&) const = default;
};

/// KUBERNETES_EXEC_INFO: an ExecCredential of the plugin's own version, never interactive.
std::string ExecInfo(const ExecPlugin& plugin);

/// The plugin's stdout. kUnavailable, without a word of what was printed there: another version,
/// neither token nor certificate, half of a pair, a token or time that is none.
Result<ExecCredential> ParseExecCredential(std::string_view json, const ExecPlugin& plugin);

/// Runs it without a terminal. kPermissionDenied for whatever keeps it from giving a credential:
/// no such program (with its install hint and PATH), an exit code (with the end of its stderr), an
/// answer that is none; kTimedOut and kInterrupted as they are.
Result<ExecCredential> RunExecPlugin(const ExecPlugin& plugin, Deadline deadline,
                                     const std::atomic<bool>* interrupted);

/// RFC 3339, with fractions and offsets.
std::optional<std::chrono::system_clock::time_point> ParseRfc3339(std::string_view text);

/// A token that fits into a header: visible ASCII, no blank.
bool LooksLikeToken(std::string_view text);

}  // namespace dlc
