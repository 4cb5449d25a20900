#include "cmd/dlc-check/live_cluster.h"

#include <mutex>
#include <utility>

#include "cmd/dlc-check/environment.h"
#include "cmd/dlc-check/signals.h"
#include "probes/control/kubernetes/kube_client.h"
#include "probes/control/kubernetes/observe_cluster.h"

namespace dlc {
namespace {

std::string FromEnvironment(const char* name) {
  const char* value = EnvironmentVariable(name);
  return value == nullptr ? "" : value;
}

KubeEnvironment ReadKubeEnvironment() {
  KubeEnvironment environment;
  environment.kubeconfig_list = FromEnvironment("KUBECONFIG");
  if (const std::string home = FromEnvironment("HOME");
      environment.kubeconfig_list.empty() && !home.empty()) {
    environment.kubeconfig_list = home + "/.kube/config";
  }
  environment.service_host = FromEnvironment("KUBERNETES_SERVICE_HOST");
  environment.service_port = FromEnvironment("KUBERNETES_SERVICE_PORT");
  return environment;
}

const std::string& Either(const std::string& flag, const std::string& configured) {
  return flag.empty() ? configured : flag;
}

}  // namespace

Result<LiveCluster> PlanLiveCluster(const ClusterFlags& flags, const Config* config) {
  const ClusterConfig none;
  const ClusterConfig& given = config == nullptr ? none : config->cluster;
  auto access = FindKubeAccess(
      {Either(flags.kubeconfig, given.kubeconfig.path), Either(flags.context, given.context.text),
       Either(flags.name_space, given.name_space.text)},
      ReadKubeEnvironment());
  if (!access) {
    return std::move(access).error();
  }
  return LiveCluster{std::move(*access), Either(flags.ray_cluster, given.name.text)};
}

Result<void> ObserveLiveCluster(const LiveCluster& live, const RayDashboard& ray,
                                Observations& observations, Progress& progress) {
  std::mutex one_at_a_time;  // requests are told from several threads
  const auto step = [&](const std::string& text) {
    const std::lock_guard lock(one_at_a_time);
    progress.Step(text);
  };
  const auto warn = [&](const std::string& text) {
    const std::lock_guard lock(one_at_a_time);
    progress.Warn(text);
  };
  progress.Stage("cluster");
  KubeClientOptions options;
  options.interrupted = &Interrupted();
  options.log = step;
  KubeClient client(live.access, options);
  auto looked = ObserveCluster(client,
                               {live.access.name_space, live.ray_cluster, observations.run.stages,
                                !ray.address && ray.look.questions.Any()},
                               Deadline::After(timeouts::kKubernetes), {step, warn}, observations);
  if (looked && !Interrupted()) {
    ObserveLiveRay(client, ray, observations, progress);
  }
  return looked;
}

}  // namespace dlc
