#include "probes/control/kubernetes/rights.h"

#include <algorithm>
#include <initializer_list>

namespace dlc {
namespace {

struct Need {
  const char* verb;
  const char* group;
  const char* resource;
  const char* subresource;
  bool namespaced;
  std::initializer_list<Stage> stages;  ///< whose checks read it
};

constexpr std::initializer_list<Stage> kEvery = {Stage::kImage, Stage::kGpu, Stage::kNccl,
                                                 Stage::kFsdp, Stage::kCheckpoint};
constexpr std::initializer_list<Stage> kOfPods = {Stage::kImage, Stage::kGpu, Stage::kNccl};
constexpr std::initializer_list<Stage> kOfDashboard = {Stage::kImage, Stage::kGpu};
constexpr std::initializer_list<Stage> kOfDevices = {Stage::kGpu, Stage::kNccl};
constexpr std::initializer_list<Stage> kOfImage = {Stage::kImage};

const Need kNeeds[] = {
    {"list", "ray.io", "rayclusters", "", true, kEvery},
    {"list", "ray.io", "rayjobs", "", true, kOfImage},
    {"list", "", "pods", "", true, kOfPods},
    {"list", "", "nodes", "", false, kOfPods},
    {"get", "", "services", "proxy", true, kOfDashboard},
    {"list", "resource.k8s.io", "resourceslices", "", false, kOfDevices},
    {"list", "resource.k8s.io", "resourceclaims", "", true, kOfDevices},
};

bool Serves(const Need& need, const std::vector<Stage>& stages) {
  return std::any_of(stages.begin(), stages.end(), [&](Stage stage) {
    return std::find(need.stages.begin(), need.stages.end(), stage) != need.stages.end();
  });
}

}  // namespace

bool IsFirstAsked(const KubeRight& right, bool dashboard) {
  if (right.group == kDraGroup) {
    return false;
  }
  return right.verb == "list" || dashboard;
}

std::vector<KubeRight> RightsOf(const std::vector<Stage>& stages, const std::string& name_space) {
  std::vector<KubeRight> rights;
  for (const Need& need : kNeeds) {
    if (Serves(need, stages)) {
      rights.push_back({need.verb, need.group, need.resource, need.subresource,
                        need.namespaced ? name_space : ""});
    }
  }
  return rights;
}

bool IsNeeded(const std::string& resource, const std::vector<Stage>& stages) {
  return std::any_of(std::begin(kNeeds), std::end(kNeeds), [&](const Need& need) {
    return need.resource == resource && Serves(need, stages);
  });
}

}  // namespace dlc
