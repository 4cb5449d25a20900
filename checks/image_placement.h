#pragma once

#include "checks/accepted_digests.h"
#include "checks/check.h"
#include "checks/ray_pods.h"

namespace dlc {

/// Of the check image-digest: how manifests and pods name the image, and whether it was built for
/// the nodes that they put it on. The digests themselves are judged in image_digest.cpp.

inline constexpr Rule kReferencePinned{
    "image-digest/reference-pinned",
    Severity::kWarn,
    false,
    "the manifest names the image by digest",
    "this reference carries a digest, so that every pull gets the same bytes",
    "that the digest is the right one (policy-digest-served and pod-runs-accepted-digest)",
    "write the image as REPOSITORY@sha256:... in the RayCluster; tags of this image have moved "
    "from one release to the next within days"};
inline constexpr Rule kPullPolicyRule{
    "image-digest/pull-policy",
    Severity::kWarn,
    false,
    "a reference by tag is resolved again at every start",
    "kubelet asks the registry at every container start, so a new pod does not get a node's old "
    "copy of the tag",
    "that pods started at different times run the same content",
    "pin the image by digest, or set imagePullPolicy: Always"};
inline constexpr Rule kNodeArchitecture{
    "image-digest/architecture",
    Severity::kWarn,
    false,
    "the image has a build for every node that runs a Ray pod",
    "the node's architecture is one that the image was built for and that the policy names",
    "that the runtime unpacked that build",
    "set nodeSelector kubernetes.io/arch in every group of the RayCluster"};

/// Of whatever rests on the registry's answer, when that was not seen.
inline constexpr const char* kServedName = "what the registry serves for the reference";

/// kReferencePinned and kPullPolicyRule of every image text of Ray containers. `pods` may be null:
/// not seen.
void JudgeReferences(const Observations& o, const RayPods* pods, Judge& judge);

/// kNodeArchitecture of every node that a Ray pod was given. `pods` may be null: not seen.
void JudgeArchitecture(const Observations& o, const Policy& policy, const RayPods* pods,
                       const DigestDemand& demand, Judge& judge);

}  // namespace dlc
