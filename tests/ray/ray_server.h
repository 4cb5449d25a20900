#pragma once

#include <map>
#include <string>

#include "probes/control/ray/observe_ray.h"
#include "tests/http/scripted_server.h"

namespace dlc {

inline constexpr const char* kModePath = "/api/authentication_mode";
inline constexpr const char* kVersionPath = "/api/version";
inline constexpr const char* kNodesPath = "/api/v0/nodes";
inline constexpr const char* kJobsPath = "/api/jobs/";

/// Whole HTTP answers by path, without the query; others are 404 as aiohttp gives them.
using RayAnswers = std::map<std::string, std::string>;

/// "HTTP/1.1 200 OK" with that JSON.
std::string JsonAnswer(const std::string& body);

/// What a real Ray of that version answered (tests/testdata/ray), below `prefix`.
RayAnswers RecordedRay(const std::string& version, const std::string& prefix = "");

/// The path of a request, without the query.
std::string PathOfRequest(const std::string& request);

/// A ScriptedServer's answer function.
ScriptedServer::Answer AnswerFrom(RayAnswers answers);

/// A look at everything, quiet, with that token in $RAY_AUTH_TOKEN.
RayLook WholeLook(const std::string& token = "");

/// The facts that a dashboard at `address` gives.
RayFacts LookAt(const std::string& address, const RayLook& look);

}  // namespace dlc
