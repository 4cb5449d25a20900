#pragma once

#include <functional>
#include <string>
#include <vector>

#include "probes/control/kubernetes/kube_client.h"
#include "probes/observations/cluster.h"
#include "probes/observations/observed.h"
#include "probes/observations/ray.h"

namespace dlc {

/// One kind of object to list, whole.
struct KubeListing {
  KubeRight right;             ///< verb list: names group, resource and namespace
  std::string label_selector;  ///< may be empty
  std::string version = "v1";
};

/// Lists, as observations: what the API server does not allow is not looked at, naming the right;
/// what else goes wrong is an Error. On success `facts` tells what was listed. Objects are read as
/// in files; one that cannot be read makes an Error of the whole. Notes are remarks on objects.
struct KubeListNotes {
  ApiListFacts facts;
  std::vector<std::string> notes;
};
Observed<std::vector<RayCluster>> ListRayClusters(KubeClient& client, const KubeListing& listing,
                                                  Deadline deadline, KubeListNotes& notes);
Observed<std::vector<RayJob>> ListRayJobs(KubeClient& client, const KubeListing& listing,
                                          const std::string& cluster, Deadline deadline,
                                          KubeListNotes& notes);
Observed<std::vector<Pod>> ListPods(KubeClient& client, const KubeListing& listing,
                                    Deadline deadline, KubeListNotes& notes);
Observed<std::vector<ResourceSlice>> ListResourceSlices(KubeClient& client,
                                                        const KubeListing& listing,
                                                        Deadline deadline, KubeListNotes& notes);
Observed<std::vector<ResourceClaim>> ListResourceClaims(KubeClient& client,
                                                        const KubeListing& listing,
                                                        Deadline deadline, KubeListNotes& notes);
Observed<std::vector<Node>> ListNodes(KubeClient& client, const KubeListing& listing,
                                      Deadline deadline, KubeListNotes& notes);

}  // namespace dlc
