#include "probes/control/kubernetes/kube_credentials.h"

#include <utility>

#include "probes/input/read_file.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxTokenBytes = 1U << 20U;
constexpr std::string_view kBlanks = " \t\r\n";

KubeCredential Bearer(const std::string& token, const TlsIdentity& identity) {
  return {token.empty() ? "" : "Bearer " + token, identity};
}

}  // namespace

KubeCredentials::KubeCredentials(KubeUser user, const std::atomic<bool>* interrupted, Clock clock)
    : user_(std::move(user)), interrupted_(interrupted), clock_(std::move(clock)) {}

/// The last good value wins over a file that cannot be read for a moment.
Result<KubeCredential> KubeCredentials::FromFile() {
  const auto bytes = ReadFileBytes(user_.token_file, kMaxTokenBytes, PipeInput::kRefuse);
  if (bytes) {
    const auto first = bytes->find_first_not_of(kBlanks);
    const auto last = bytes->find_last_not_of(kBlanks);
    const std::string token =
        first == std::string::npos ? "" : bytes->substr(first, last - first + 1);
    if (LooksLikeToken(token)) {
      last_good_token_ = token;
      return Bearer(token, user_.identity);
    }
  }
  const std::string& before = last_good_token_.empty() ? user_.token : last_good_token_;
  if (!before.empty()) {
    return Bearer(before, user_.identity);
  }
  return Error{ErrorCode::kPermissionDenied,
               user_.where + ": token file: " +
                   (bytes ? "'" + user_.token_file + "' holds no token" : bytes.error().message),
               ""};
}

bool KubeCredentials::Fresh() const {
  return answer_ && (!answer_->expires || clock_() < *answer_->expires);
}

KubeCredential KubeCredentials::OfPlugin() const {
  return Bearer(answer_->token, answer_->identity);
}

Result<void> KubeCredentials::RunPlugin(Deadline deadline) {
  auto answer = RunExecPlugin(*user_.exec, deadline, interrupted_);
  if (!answer) {
    return std::move(answer).error();
  }
  answer_ = std::move(*answer);
  return {};
}

Result<KubeCredential> KubeCredentials::Get(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  if (!user_.token_file.empty()) {
    return FromFile();
  }
  if (!user_.exec) {
    return Bearer(user_.token, user_.identity);
  }
  if (!Fresh()) {
    if (auto done = RunPlugin(deadline); !done) {
      return std::move(done).error();
    }
  }
  return OfPlugin();
}

Result<std::optional<KubeCredential>> KubeCredentials::Renew(const KubeCredential& refused,
                                                             Deadline deadline) {
  const std::lock_guard lock(mutex_);
  std::optional<KubeCredential> other;
  if (!user_.token_file.empty()) {
    auto now = FromFile();
    if (!now) {
      return std::move(now).error();
    }
    other = std::move(*now);
  } else if (user_.exec) {
    if (!answer_ || OfPlugin() == refused) {
      if (auto done = RunPlugin(deadline); !done) {
        return std::move(done).error();
      }
    }
    other = OfPlugin();
  }
  // The same one again would be refused again.
  return other && *other == refused ? std::optional<KubeCredential>() : other;
}

}  // namespace dlc
