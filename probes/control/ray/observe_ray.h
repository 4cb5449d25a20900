#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "probes/control/ray/ray_client.h"
#include "probes/control/ray/ray_route.h"
#include "probes/control/ray/ray_token.h"
#include "probes/observations/deadline.h"
#include "probes/observations/ray.h"
#include "probes/observations/run.h"

namespace dlc {

/// What to ask a dashboard; the rest of RayFacts is left as it is.
struct RayQuestions {
  bool version = false;
  bool nodes = false;
  bool jobs = false;

  bool Any() const { return version || nodes || jobs; }
};

/// What the checks of the stages read.
RayQuestions RayQuestionsOf(const std::vector<Stage>& stages);

/// Tells what is being done.
struct RayTalk {
  std::function<void(const std::string&)> step;
  std::function<void(const std::string&)> warn;
};

/// What a look at a dashboard needs beside the way to it.
struct RayLook {
  RayQuestions questions;
  RayTokenSources token;
  RayRouteOptions route;
};

/// No question was asked, and why.
void LeaveUnasked(const RayQuestions& questions, const NotLookedAt& why, RayFacts& facts);

/// A dashboard that has answered.
struct OpenRay {
  std::shared_ptr<RayClient> client;
  std::string authentication;  ///< as RayClient::LogIn gives it
};

/// The first of `routes` (at least one) that gets an answer. Not looked at: as RayClient::LogIn, a
/// right that is missing, an interruption.
Observed<OpenRay> OpenDashboard(std::vector<std::unique_ptr<RayRoute>> routes,
                                const RayTokenSources& token, Deadline deadline,
                                const RayTalk& talk);

/// The ways to the dashboard of a live RayCluster, best first, and where its token may be.
struct WaysToRay {
  std::vector<std::unique_ptr<RayRoute>> routes;
  RayTokenSources token;
  NotLookedAt why_none;  ///< where there is no way
};
/// In a pod by the cluster's DNS, else, or where that leads nowhere, through the API server's
/// service proxy, if that is allowed. `client` and `cluster` must outlive them.
WaysToRay WaysToRayOfCluster(KubeClient& client, const RayCluster& cluster, const RayLook& look,
                             Deadline deadline, const RayTalk& talk);

/// Asks by the first of `routes` (at least one) that gets an answer. Each question is an
/// observation of its own: a token or right that is missing leaves it not looked at and says what
/// to do; what else goes wrong is an Error. `facts.dashboard` tells who was asked, once it
/// answered.
void ObserveRay(std::vector<std::unique_ptr<RayRoute>> routes, const RayLook& look,
                Deadline deadline, const RayTalk& talk, RayFacts& facts);

/// The dashboard at that address.
void ObserveRayAt(const Url& address, const RayLook& look, Deadline deadline, const RayTalk& talk,
                  RayFacts& facts);

/// The dashboard of a live RayCluster, by the ways to it.
void ObserveRayOfCluster(KubeClient& client, const RayCluster& cluster, const RayLook& look,
                         Deadline deadline, const RayTalk& talk, RayFacts& facts);

}  // namespace dlc
