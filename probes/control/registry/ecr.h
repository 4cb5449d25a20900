#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "probes/control/registry/docker_config.h"
#include "probes/observations/deadline.h"
#include "probes/observations/result.h"

namespace dlc {

/// The region of a private Amazon ECR registry, or empty: "ACCOUNT.dkr.ecr.REGION.amazonaws.com",
/// of China ".amazonaws.com.cn", FIPS ("dkr.ecr-fips"), dual-stack
/// ("ACCOUNT.dkr-ecr.REGION.on.aws") and the partitions of their own. The whole host must match: a
/// password for ECR goes there.
std::string PrivateEcrRegion(const std::string& host);

/// What `aws` said of a login.
struct EcrLogin {
  std::optional<Credential> credential;
  std::string where;  ///< "aws ecr get-login-password", "'aws' is not in PATH"
};

/// `aws ecr get-login-password --region REGION`, which uses whatever AWS credentials there are. No
/// such program is no credential. Errors: kPermissionDenied with what it wrote to stderr (no AWS
/// credentials, expired ones), kUnavailable (an answer that is no password), kTimedOut,
/// kInterrupted.
Result<EcrLogin> LogInToEcr(const std::string& region, Deadline deadline,
                            const std::atomic<bool>* interrupted);

}  // namespace dlc
