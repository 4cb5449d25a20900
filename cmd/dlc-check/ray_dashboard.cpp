#include "cmd/dlc-check/ray_dashboard.h"

#include <algorithm>
#include <utility>

#include "cmd/dlc-check/environment.h"
#include "cmd/dlc-check/signals.h"
#include "probes/control/ray/dashboard_address.h"
#include "probes/documents/node.h"

namespace dlc {
namespace {

constexpr const char* kAddressVariable = "RAY_ADDRESS";

std::string Variable(const char* name) {
  const char* value = EnvironmentVariable(name);
  return value == nullptr ? "" : value;
}

Result<std::optional<Url>> Named(const std::string& text, const std::string& where) {
  auto url = ParseDashboardAddress(text);
  if (!url) {
    return Error{ErrorCode::kInvalidInput, where + ": " + url.error().message, url.error().hint};
  }
  return std::optional(std::move(*url));
}

/// Not `wanted`: RAY_ADDRESS is of no interest.
Result<std::optional<Url>> ChooseAddress(const std::string& flag, const Config* config,
                                         bool wanted) {
  if (!flag.empty()) {
    const std::string saved = config == nullptr ? "" : config->ray.SavedAnswer();
    if (!saved.empty()) {
      return Error{ErrorCode::kInvalidInput,
                   "--ray-address cannot be used with " + saved + " of " + config->file +
                       ", a saved answer of the same dashboard",
                   "remove one of them"};
    }
    return Named(flag, "--ray-address");
  }
  if (config != nullptr && !config->ray.address.empty()) {
    const ConfigText& address = config->ray.address;
    auto url = ParseDashboardAddress(address.text);
    if (!url) {
      return DocumentError(config->file, address.line, "ray.address: " + url.error().message,
                           url.error().hint);
    }
    return std::optional(std::move(*url));
  }
  const std::string variable = Variable(kAddressVariable);
  if (variable.empty() || !wanted) {
    return std::optional<Url>();
  }
  auto url = Named(variable, kAddressVariable);
  if (!url) {
    url.error().hint += ", or unset RAY_ADDRESS";
  }
  return url;
}

RayTalk Talk(Progress& progress) {
  return {[&progress](const std::string& text) { progress.Step(text); },
          [&progress](const std::string& text) { progress.Warn(text); }};
}

/// The look with what only the time of asking knows.
RayLook LookOf(const RayDashboard& ray, Progress& progress) {
  RayLook look = ray.look;
  look.route.interrupted = &Interrupted();
  look.route.log = Talk(progress).step;
  return look;
}

}  // namespace

Result<RayDashboard> PlanRayDashboard(const std::string& flag, const Config* config,
                                      const std::vector<Stage>& stages, bool for_ranks) {
  RayDashboard ray;
  RayQuestions& questions = ray.look.questions;
  questions = RayQuestionsOf(stages);
  if (config != nullptr) {
    questions.version = questions.version && config->ray.version.empty();
    questions.nodes = questions.nodes && config->ray.nodes.empty();
    questions.jobs = questions.jobs && config->ray.jobs.empty() && config->ray.runtime_env.empty();
    ray.look.route.ca_file = config->ray.ca.path;
    ray.timeout = config->ray.timeout.value_or(
        std::chrono::duration_cast<std::chrono::seconds>(timeouts::kRay));
  }
  ray.look.route.timeout = std::min(ray.look.route.timeout, ray.timeout);
  ray.look.route.in_pod = !Variable("KUBERNETES_SERVICE_HOST").empty();
  ray.look.token = {Variable("RAY_AUTH_TOKEN"), Variable("RAY_AUTH_TOKEN_PATH"), Variable("HOME")};
  auto address = ChooseAddress(flag, config, for_ranks || questions.Any());
  if (!address) {
    return std::move(address).error();
  }
  ray.address = std::move(*address);
  return ray;
}

Error NoDashboard(const Config& config) {
  return DocumentError(config.file, config.target.type.line,
                       "target ray needs Ray's dashboard, and none is named",
                       "ray.address, --ray-address or RAY_ADDRESS (http://HOST:8265), or "
                       "cluster.name with a kubeconfig");
}

void ObserveRayDashboard(const RayDashboard& ray, RayFacts& facts, Progress& progress) {
  if (!ray.address || !ray.look.questions.Any()) {
    return;
  }
  progress.Stage("ray");
  ObserveRayAt(*ray.address, LookOf(ray, progress), Deadline::After(ray.timeout), Talk(progress),
               facts);
}

void ObserveLiveRay(KubeClient& client, const RayDashboard& ray, Observations& observations,
                    Progress& progress) {
  const auto* clusters = observations.cluster.ray_clusters.get();
  if (ray.address || !ray.look.questions.Any()) {
    return;
  }
  if (clusters == nullptr || clusters->size() != 1) {
    LeaveUnasked(ray.look.questions,
                 {"the RayCluster, whose status names the dashboard's service, was not seen", ""},
                 observations.ray);
    return;
  }
  progress.Stage("ray");
  ObserveRayOfCluster(client, clusters->front(), LookOf(ray, progress),
                      Deadline::After(ray.timeout), Talk(progress), observations.ray);
}

}  // namespace dlc
