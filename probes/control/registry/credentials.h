#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>

#include "probes/control/registry/docker_config.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// What a look for credentials found.
struct CredentialSearch {
  std::optional<Credential> credential;  ///< nothing: ask as anonymous
  /// For messages: "auths in FILE", "docker-credential-ecr-login (FILE)", "no entry for 'HOST' in
  /// FILE", "FILE does not exist".
  std::string where;
};

/// Credentials for a repository as docker finds them: credHelpers, else credsStore, then `auths` of
/// DIR/config.json; for a private Amazon ECR that docker has none for, LogInToEcr. An empty
/// `docker_config_dir` means that none are wanted. A missing file or a helper that knows nothing is
/// anonymous; a malformed file (kInvalidInput) and a helper that is missing (kNotFound, naming
/// PATH), fails (kUnavailable) or hangs (kTimedOut) are Errors.
Result<CredentialSearch> FindCredential(const std::string& docker_config_dir,
                                        const std::string& registry, const std::string& repository,
                                        Deadline deadline, const std::atomic<bool>* interrupted);

}  // namespace dlc
