#include "probes/control/ray/observe_ray.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "probes/control/files/ray_answers.h"
#include "probes/control/ray/ray_client.h"
#include "probes/control/ray/ray_secret.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxVersionBytes = 1U << 20U;
constexpr std::size_t kMaxListBytes = 64U << 20U;
constexpr const char* kVersion = "/api/version";
/// The most that Ray gives; without a limit it gives a hundred.
constexpr const char* kNodes = "/api/v0/nodes?detail=1&limit=10000";
constexpr const char* kJobs = "/api/jobs/";

/// An interruption is no error of Ray's, and a right that is missing is nobody's error.
std::optional<NotLookedAt> WhyNotAsked(const Error& error) {
  if (error.code == ErrorCode::kInterrupted) {
    return NotLookedAt{"interrupted", ""};
  }
  if (error.code == ErrorCode::kPermissionDenied && error.message.starts_with("needs ")) {
    return NotLookedAt{error.message, ""};
  }
  return std::nullopt;
}

template <class T>
Observed<T> Ask(RayClient& client, const std::string& path, std::size_t max_bytes,
                Result<T> (*parse)(std::string_view, const std::string&), Deadline deadline) {
  const auto body = client.GetJson(path, max_bytes, deadline);
  if (!body) {
    if (const auto why = WhyNotAsked(body.error())) {
      return *why;
    }
    return body.error();
  }
  auto value = parse(*body, client.NameOf(path));
  if (!value) {
    // No file of the user's is wrong.
    return Error{ErrorCode::kUnavailable, value.error().message, value.error().hint};
  }
  return std::move(value).value();
}

/// The same for all that was to be asked.
template <class Why>
void Because(const Why& why, const RayQuestions& questions, RayFacts& facts) {
  if (questions.version) {
    facts.version = why;
  }
  if (questions.nodes) {
    facts.nodes = why;
  }
  if (questions.jobs) {
    facts.jobs = why;
  }
}

bool LeadsNowhere(const Error& error) {
  return error.code == ErrorCode::kUnavailable || error.code == ErrorCode::kTimedOut;
}

void AskAll(RayClient& client, const RayQuestions& questions, Deadline deadline, RayFacts& facts) {
  if (questions.version) {
    facts.version = Ask(client, kVersion, kMaxVersionBytes, ParseRayVersion, deadline);
  }
  if (questions.nodes) {
    facts.nodes = Ask(client, kNodes, kMaxListBytes, ParseRayNodes, deadline);
  }
  if (questions.jobs) {
    facts.jobs = Ask(client, kJobs, kMaxListBytes, ParseRayJobs, deadline);
  }
}

}  // namespace

RayQuestions RayQuestionsOf(const std::vector<Stage>& stages) {
  const auto has = [&stages](Stage stage) {
    return std::find(stages.begin(), stages.end(), stage) != stages.end();
  };
  const bool image = has(Stage::kImage);
  return {image, image || has(Stage::kGpu), image};
}

void LeaveUnasked(const RayQuestions& questions, const NotLookedAt& why, RayFacts& facts) {
  Because(why, questions, facts);
}

Observed<OpenRay> OpenDashboard(std::vector<std::unique_ptr<RayRoute>> routes,
                                const RayTokenSources& token, Deadline deadline,
                                const RayTalk& talk) {
  std::string before;  // why the ways before led nowhere
  for (std::size_t i = 0; i < routes.size(); ++i) {
    auto client = std::make_shared<RayClient>(std::move(routes[i]), token);
    talk.step("asking Ray's dashboard at " + client->Route().Address());
    const auto mode = client->LogIn(deadline);
    if (mode.seen()) {
      return OpenRay{std::move(client), mode.value()};
    }
    if (mode.not_looked_at()) {
      return mode.why_not();
    }
    Error error = mode.error();
    if (LeadsNowhere(error) && i + 1 < routes.size()) {
      before += "; before that: " + error.message;
      continue;
    }
    error.message += before;
    if (const auto why = WhyNotAsked(error)) {
      return *why;
    }
    return error;
  }
  return Error{ErrorCode::kInternal, "no way to Ray's dashboard was given", ""};
}

void ObserveRay(std::vector<std::unique_ptr<RayRoute>> routes, const RayLook& look,
                Deadline deadline, const RayTalk& talk, RayFacts& facts) {
  const auto open = OpenDashboard(std::move(routes), look.token, deadline, talk);
  if (open.not_looked_at()) {
    return Because(open.why_not(), look.questions, facts);
  }
  if (open.failed()) {
    return Because(open.error(), look.questions, facts);
  }
  RayClient& client = *open.value().client;
  facts.dashboard = RayDashboardFacts{client.Route().Address(), client.Route().Name(),
                                      open.value().authentication};
  AskAll(client, look.questions, deadline, facts);
}

void ObserveRayAt(const Url& address, const RayLook& look, Deadline deadline, const RayTalk& talk,
                  RayFacts& facts) {
  std::vector<std::unique_ptr<RayRoute>> routes;
  routes.push_back(MakeDirectRoute(address, look.route));
  ObserveRay(std::move(routes), look, deadline, talk, facts);
}

WaysToRay WaysToRayOfCluster(KubeClient& client, const RayCluster& cluster, const RayLook& look,
                             Deadline deadline, const RayTalk& talk) {
  WaysToRay ways;
  if (cluster.head_service_name.empty()) {
    ways.why_none = {"the status of RayCluster '" + cluster.name +
                         "' names no head service: KubeRay has not made it yet, or the cluster is "
                         "suspended",
                     ""};
    return ways;
  }
  ways.token = look.token;
  if (cluster.auth_mode == "token") {
    ways.token.last_resort = [&client, &cluster](Deadline until) {
      return ReadRayTokenSecret(client, cluster, until);
    };
  }
  const auto direct = ClusterDnsAddress(cluster);
  if (look.route.in_pod && direct) {
    ways.routes.push_back(MakeDirectRoute(*direct, look.route));
  }
  const KubeRight right = ServiceProxyRight(cluster.name_space);
  // Where even that cannot be asked, the proxy's own answer tells more.
  const auto allowed = client.Allows(right, deadline);
  if (!allowed || *allowed) {
    ways.routes.push_back(MakeProxyRoute(client, cluster.name_space, cluster.head_service_name));
  } else if (ways.routes.empty()) {
    talk.warn("this user lacks " + right.ToString() +
              ", and Ray's dashboard is not asked; else "
              "forward its port and give --ray-address http://127.0.0.1:8265");
    ways.why_none = {"needs " + right.ToString(), ""};
  }
  return ways;
}

void ObserveRayOfCluster(KubeClient& client, const RayCluster& cluster, const RayLook& look,
                         Deadline deadline, const RayTalk& talk, RayFacts& facts) {
  WaysToRay ways = WaysToRayOfCluster(client, cluster, look, deadline, talk);
  if (ways.routes.empty()) {
    return LeaveUnasked(look.questions, ways.why_none, facts);
  }
  RayLook with_secret = look;
  with_secret.token = std::move(ways.token);
  ObserveRay(std::move(ways.routes), with_secret, deadline, talk, facts);
}

}  // namespace dlc
