#include "checks/container_start.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "checks/ray_pods.h"

namespace dlc {
namespace {

// kubelet's reasons for a container that cannot start (pkg/kubelet/images/types.go and
// kuberuntime). StartError and ContainerCannotRun are terminated states.
constexpr std::array<std::string_view, 13> kFailing = {"ErrImagePull",
                                                       "ImagePullBackOff",
                                                       "InvalidImageName",
                                                       "ErrImageNeverPull",
                                                       "ImageInspectError",
                                                       "RegistryUnavailable",
                                                       "CreateContainerError",
                                                       "RunContainerError",
                                                       "CreateContainerConfigError",
                                                       "SignatureValidationFailed",
                                                       "StartError",
                                                       "ContainerCannotRun",
                                                       "PreCreateHookError"};

struct Signature {
  std::string_view text;
  const char* cause;
};
// Lower case. Platform before "not found": containerd says "no match for platform in manifest: not
// found".
constexpr Signature kSignatures[] = {
    {"no match for platform", "platform"},
    {"exec format error", "platform"},
    {"no basic auth credentials", "auth"},
    {"401 unauthorized", "auth"},
    {"403 forbidden", "auth"},
    {": 401", "auth"},
    {": 403", "auth"},
    {"code 401", "auth"},
    {"code 403", "auth"},
    {"unauthorized", "auth"},
    {"pull access denied", "auth"},
    {"authorization failed", "auth"},
    {"authorization token has expired", "auth"},
    {"not authorized", "auth"},
    {"unexpected commit digest", "damaged content"},
    {"toomanyrequests", "rate limit"},
    {"429 too many requests", "rate limit"},
    {"manifest unknown", "not found"},
    {"not found", "not found"},
};

std::string CauseOf(const std::string& message) {
  std::string low = message;
  std::transform(low.begin(), low.end(), low.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  for (const Signature& signature : kSignatures) {
    if (low.find(signature.text) != std::string::npos) {
      return signature.cause;
    }
  }
  return {};
}

bool CannotStart(const ContainerStatus& status) {
  const bool known = std::find(kFailing.begin(), kFailing.end(), status.reason) != kFailing.end();
  // A container of the wrong architecture is created and dies at once, under many reasons.
  return status.state != "running" && (known || CauseOf(status.message) == "platform");
}

ContainerStart Start(ContainerStart::State state, const ContainerStatus& status) {
  return {state, status.name, status.reason, status.message, CauseOf(status.message)};
}

}  // namespace

ContainerStart ClassifyStart(const Pod& pod) {
  using State = ContainerStart::State;
  for (const ContainerStatus& init : pod.init_statuses) {
    if (CannotStart(init)) {
      return Start(State::kFailed, init);
    }
  }
  const ContainerStatus* status = RayStatus(pod);
  const ContainerSpec* container = RayContainer(pod);
  const std::string name = container == nullptr ? std::string() : container->name;
  if (status == nullptr) {
    return {State::kPending, name, pod.node.empty() ? "not scheduled" : "no status", "", ""};
  }
  if (CannotStart(*status)) {
    return Start(State::kFailed, *status);
  }
  if (status->image_id.empty()) {
    ContainerStart pending = Start(State::kPending, *status);
    pending.reason = pending.reason.empty() ? "no imageID" : pending.reason;
    return pending;
  }
  return Start(State::kStarted, *status);
}

const char* StartHint(const std::string& cause) {
  if (cause == "auth") {
    return "give the node role or imagePullSecrets the right to pull from this registry, and check "
           "that the secret has not expired (an ECR token lives 12 hours)";
  }
  if (cause == "not found") {
    return "check repository, tag and digest in the manifest against the registry, and that a "
           "mirror holds them";
  }
  if (cause == "platform") {
    return "the image has no build for the node's architecture: set nodeSelector "
           "kubernetes.io/arch";
  }
  if (cause == "damaged content") {
    return "delete the pod, and clear this node's content store if it happens again";
  }
  if (cause == "rate limit") {
    return "authenticate the pull or use a private registry: anonymous pulls are limited";
  }
  return "";
}

}  // namespace dlc
