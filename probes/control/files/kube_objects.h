#pragma once

#include <string>

#include "probes/control/files/fields.h"
#include "probes/observations/cluster.h"

namespace dlc {

/// Kubernetes objects as the API server and manifests write them, for saved files and for live
/// answers. Errors go to the reading of `object`; the value is then incomplete and must not be
/// used. Values of secret references are never read; literal values of variables whose name looks
/// secret become "(redacted)".

/// kind RayCluster (ray.io/v1 and v1alpha1).
RayCluster ReadRayCluster(const Fields& object);
/// A RayClusterSpec inside another object: spec.rayClusterSpec of a RayJob, spec.rayClusterConfig
/// of a RayService. `metadata` is the outer object's: the operator derives the cluster's own name
/// from it, so `name` is what status tells, or the outer name.
RayCluster ReadEmbeddedRayCluster(const Fields& object, const Fields& spec,
                                  const std::string& status_name);
/// kind Pod.
Pod ReadPod(const Fields& object);
/// kind ResourceSlice and ResourceClaim (resource.k8s.io v1, v1beta2, v1beta1).
ResourceSlice ReadResourceSlice(const Fields& object);
ResourceClaim ReadResourceClaim(const Fields& object);
/// kind Node.
Node ReadNode(const Fields& object);

}  // namespace dlc
