#include "cmd/dlc-check/rank_launcher.h"

#include <utility>
#include <vector>

#include "probes/control/launcher/local_launcher.h"
#include "probes/control/ray_ranks/ray_launcher.h"

namespace dlc {
namespace {

/// dlc-probe goes up in one request, from wherever this is.
constexpr std::chrono::milliseconds kUpload{300'000};

}  // namespace

/// Nothing here looks at interruptions: the launcher does, between requests, and cleans up after
/// one by the same way.
Observed<OpenRay> RankLaunchers::Open(Progress& progress) {
  RayLook look = ray_.look;
  look.route.interrupted = nullptr;
  look.route.log = nullptr;
  look.route.timeout = kUpload;
  const RayTalk talk{[&progress](const std::string& text) { progress.Step(text); },
                     [&progress](const std::string& text) { progress.Warn(text); }};
  const Deadline deadline = Deadline::After(ray_.timeout);
  if (ray_.address) {
    std::vector<std::unique_ptr<RayRoute>> routes;
    routes.push_back(MakeDirectRoute(*ray_.address, look.route));
    return OpenDashboard(std::move(routes), look.token, deadline, talk);
  }
  const auto* clusters = cluster_.ray_clusters.get();
  if (!live_ || clusters == nullptr || clusters->size() != 1) {
    return NotLookedAt{"the RayCluster, whose status names the dashboard's service, was not seen",
                       ""};
  }
  KubeClientOptions options;
  options.timeout = kUpload;
  kube_ = std::make_unique<KubeClient>(live_->access, options);
  WaysToRay ways = WaysToRayOfCluster(*kube_, clusters->front(), look, deadline, talk);
  if (ways.routes.empty()) {
    return ways.why_none;
  }
  if (ways.routes.front()->Name() == "service-proxy") {
    for (const KubeRight& right : RankRights(clusters->front().name_space)) {
      // Where that cannot be asked, the proxy's own refusal tells.
      const auto allowed = kube_->Allows(right, deadline);
      if (allowed && !*allowed) {
        return NotLookedAt{"ranks through the API server's service proxy need " + right.ToString() +
                               " ('dlc-check manifest rbac --ranks' prints all); else forward the "
                               "dashboard's port and give --ray-address http://127.0.0.1:8265",
                           ""};
      }
    }
  }
  return OpenDashboard(std::move(ways.routes), ways.token, deadline, talk);
}

Observed<std::unique_ptr<Launcher>> RankLaunchers::Make(Progress& progress) {
  if (setup_.env) {
    return std::unique_ptr<Launcher>(std::make_unique<EnvLauncher>(""));
  }
  if (!setup_.ray) {
    return std::unique_ptr<Launcher>(std::make_unique<LocalLauncher>(LocalLauncherOptions{}));
  }
  if (!client_) {
    auto open = Open(progress);
    if (!open.seen()) {
      return open.failed() ? Observed<std::unique_ptr<Launcher>>(open.error())
                           : Observed<std::unique_ptr<Launcher>>(open.why_not());
    }
    client_ = std::move(open.value().client);
  }
  RayLauncherOptions options;
  options.client = client_;
  options.gpus_per_rank = setup_.ray->gpus_per_rank;
  options.strategy = setup_.ray->strategy;
  options.wait = setup_.ray->wait;
  options.lease = setup_.ray->lease;
  return std::unique_ptr<Launcher>(std::make_unique<RayLauncher>(std::move(options)));
}

}  // namespace dlc
