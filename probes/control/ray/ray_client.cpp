#include "probes/control/ray/ray_client.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/process/run_process.h"

namespace dlc {
namespace {

constexpr const char* kAuthenticationMode = "/api/authentication_mode";
constexpr const char* kNoAuthentication = "disabled";
constexpr std::size_t kMaxModeBytes = 64U << 10U;
constexpr std::size_t kSaidChars = 80;
/// Ray's own tokens have at least 32 characters; a text of a few would be found everywhere.
constexpr std::size_t kShortestRedacted = 6;

}  // namespace

RayClient::RayClient(std::unique_ptr<RayRoute> route, RayTokenSources sources)
    : route_(std::move(route)), sources_(std::move(sources)) {}

std::string RayClient::WithoutToken(std::string text) const {
  const std::string& token = token_.value;
  auto at = token.size() < kShortestRedacted ? std::string::npos : text.find(token);
  if (at == std::string::npos) {
    return text;
  }
  std::string clean;
  std::size_t done = 0;
  for (; at != std::string::npos; at = text.find(token, done)) {
    clean.append(text, done, at - done).append("(redacted)");
    done = at + token.size();
  }
  return clean.append(text, done);
}

/// Cut last: half a token would not be found.
std::string RayClient::Quoted(const HttpResponse& response) const {
  const std::string said = OneLine(WithoutToken(response.body), kSaidChars);
  return std::to_string(response.status) + (said.empty() ? "" : ": " + said);
}

std::string RayClient::NameOf(const std::string& path) const {
  std::string base = route_->Address();
  while (base.ends_with('/')) {
    base.pop_back();
  }
  return "GET " + base + path;
}

Error RayClient::Refused(const std::string& said) const {
  const std::string who = "the Ray dashboard at " + route_->Address();
  if (token_.value.empty()) {
    return {ErrorCode::kPermissionDenied,
            who + " refuses access (" + said + "), and Ray's own authentication is off there",
            "something in front of it asks for a login: forward the port ('kubectl port-forward') "
            "and ask the dashboard itself"};
  }
  return {ErrorCode::kPermissionDenied,
          who + " does not accept the token of " + token_.where + " (" + said + ")",
          "set RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH to this cluster's token: KubeRay keeps it in "
          "the cluster's Secret, key auth_token"};
}

Error RayClient::Explain(const HttpResponse& response, const std::string& path) const {
  const std::string who = "the Ray dashboard at " + route_->Address();
  const std::string said = Quoted(response);
  switch (response.status) {
    case 401:
    case 403:
      return Refused(said);
    case 404:
      return {ErrorCode::kNotFound, who + " has no " + path + " (" + said + ")",
              "check that it is a Ray dashboard (port 8265); a Ray without the extra 'default' has "
              "none"};
    default:
      return {ErrorCode::kUnavailable,
              who + " answers " + said + " for " + path +
                  (response.attempts > 1 ? ", in " + std::to_string(response.attempts) + " attempts"
                                         : ""),
              "see dashboard.log in the head's /tmp/ray/session_latest/logs"};
  }
}

Result<HttpResponse> RayClient::Ask(const std::string& path, std::size_t max_body_bytes,
                                    Deadline deadline) {
  RayRequest request;
  request.path = path;
  request.max_body_bytes = max_body_bytes;
  return Send(std::move(request), deadline);
}

Result<HttpResponse> RayClient::Send(RayRequest request, Deadline deadline) {
  request.token = token_.value;
  auto response = route_->Send(request, deadline);
  if (response) {
    response->body = WithoutToken(std::move(response->body));
  } else {
    response.error().message = WithoutToken(response.error().message);
  }
  return response;
}

Result<std::string> RayClient::JsonOf(HttpResponse response, const std::string& path) const {
  if (response.status != 200) {
    return Explain(response, path);
  }
  const std::string type = response.Header("content-type");
  if (type.starts_with("application/json")) {
    return WithoutToken(std::move(response.body));
  }
  return Error{ErrorCode::kUnavailable,
               route_->Address() + " answers " +
                   (type.empty() ? "without a content type" : OneLine(WithoutToken(type), 60)) +
                   " for " + path + ", where a Ray dashboard answers JSON",
               "check the address: a login page or another server may stand there"};
}

Result<std::string> RayClient::GetJson(const std::string& path, std::size_t max_body_bytes,
                                       Deadline deadline) {
  auto response = Ask(path, max_body_bytes, deadline);
  if (!response) {
    return std::move(response).error();
  }
  // Without the query: it says nothing to people.
  return JsonOf(std::move(*response), path.substr(0, path.find('?')));
}

Observed<std::string> RayClient::LogIn(Deadline deadline) {
  auto response = Ask(kAuthenticationMode, kMaxModeBytes, deadline);
  if (!response) {
    return std::move(response).error();
  }
  if (response->status == 404) {
    return std::string();
  }
  const auto answer = JsonOf(std::move(*response), kAuthenticationMode);
  if (!answer) {
    return answer.error();
  }
  const auto document = nlohmann::json::parse(*answer, nullptr, false);
  const auto mode = document.is_object() ? document.find("authentication_mode") : document.end();
  if (mode == document.end() || !mode->is_string()) {
    return Error{ErrorCode::kUnavailable,
                 route_->Address() + " answers " + kAuthenticationMode +
                     " with JSON that names no mode: it is no Ray dashboard",
                 "check the address"};
  }
  return TakeToken(OneLine(mode->get<std::string>(), kSaidChars), deadline);
}

Observed<std::string> RayClient::TakeToken(const std::string& mode, Deadline deadline) {
  if (mode == kNoAuthentication) {
    return mode;
  }
  const std::string wanted = "the Ray dashboard at " + route_->Address() + " wants a token";
  if (const auto may = route_->MayCarryToken(); !may) {
    return NotLookedAt{wanted + ", and " + may.error().message + "; " + may.error().hint, ""};
  }
  auto token = FindRayToken(sources_);
  if (!token) {
    return std::move(token).error();
  }
  const std::string remedy = wanted +
                             ": set RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH or ~/.ray/auth_token "
                             "(KubeRay keeps it in the cluster's Secret, key auth_token";
  if (token->value.empty() && sources_.last_resort) {
    auto found = sources_.last_resort(deadline);
    if (found.failed()) {
      return Error{found.error().code, remedy + "): " + found.error().message, found.error().hint};
    }
    if (found.not_looked_at()) {
      return NotLookedAt{remedy + ", which this user may not read: " + found.why_not().reason + ")",
                         ""};
    }
    token = std::move(found.value());
  }
  if (token->value.empty()) {
    return NotLookedAt{remedy + ")", ""};
  }
  token_ = std::move(*token);
  return mode;
}

}  // namespace dlc
