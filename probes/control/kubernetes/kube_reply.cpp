#include "probes/control/kubernetes/kube_reply.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/transport_error.h"
#include "probes/control/process/run_process.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

std::string TextOf(const Json& object, const char* key, std::size_t max_chars) {
  const auto it = object.is_object() ? object.find(key) : object.end();
  return it != object.end() && it->is_string() ? OneLine(it->get<std::string>(), max_chars)
                                               : std::string();
}

std::string Described(const HttpResponse& response, const KubeStatus& status) {
  std::string text = std::to_string(response.status);
  if (!status.is_status) {
    const std::string said = OneLine(response.body, 80);
    return text + (said.empty() ? "" : " with no Status of Kubernetes: " + said);
  }
  if (!status.reason.empty()) {
    text += " " + status.reason;
  }
  return status.message.empty() ? text : text + ": " + status.message;
}

Error NotFoundError(const KubeRight& need, const KubeStatus& status, const std::string& said) {
  const std::string kind = need.resource + (need.group.empty() ? "" : "." + need.group);
  if (status.names_object) {
    return {ErrorCode::kNotFound, "the API server has no such object: " + said, ""};
  }
  if (need.group == "ray.io") {
    return {ErrorCode::kNotFound,
            "the API server knows no " + kind + " (" + said + "): KubeRay is not installed there",
            "check the context, or install KubeRay and its CRDs"};
  }
  return {ErrorCode::kNotFound, "the API server knows no " + kind + " (" + said + ")",
          "check that the address is an API server's"};
}

}  // namespace

std::string KubeRight::ToString() const {
  std::string text = verb + " on " + resource;
  if (!subresource.empty()) {
    text += "/" + subresource;
  }
  if (!group.empty()) {
    text += "." + group;
  }
  if (!name.empty()) {
    text += " '" + name + "'";
  }
  return name_space.empty() ? text : text + " in namespace " + name_space;
}

KubeStatus ParseKubeStatus(std::string_view body) {
  const auto document = ParseStrictJson(body, {1U << 20U, 32});
  KubeStatus status;
  if (!document || TextOf(*document, "kind", 20) != "Status") {
    return status;
  }
  status.is_status = true;
  status.reason = TextOf(*document, "reason", 60);
  status.message = TextOf(*document, "message", 300);
  const auto details = document->find("details");
  status.names_object = details != document->end() && !TextOf(*details, "name", 300).empty();
  return status;
}

Error ExplainKubeFailure(const HttpResponse& response, const KubeRight& need,
                         const std::string& user) {
  const KubeStatus status = ParseKubeStatus(response.body);
  const std::string said = Described(response, status);
  const std::string server = "the API server " + HostAndPort(response.url);
  switch (response.status) {
    case 401:
      return {ErrorCode::kPermissionDenied,
              server + " does not accept the credential" + (user.empty() ? "" : " of " + user) +
                  " (" + said + ")",
              user.empty() ? "the context names no user: add one" : "log in again"};
    case 403:
      return {ErrorCode::kPermissionDenied, "needs " + need.ToString() + " (" + said + ")",
              "'dlc-check manifest rbac' prints the rights that a run needs"};
    case 404:
      return NotFoundError(need, status, said);
    case 429:
      return {ErrorCode::kUnavailable,
              server + " is too busy to " + need.verb + " " + need.resource + " (" + said +
                  "), in " + std::to_string(response.attempts) + " attempts",
              "try again later"};
    default:
      return {
          ErrorCode::kUnavailable,
          server + " cannot " + need.verb + " " + need.resource + " (" + said +
              (response.attempts > 1 ? "), in " + std::to_string(response.attempts) + " attempts"
                                     : ")"),
          ""};
  }
}

Result<void> CheckIsJson(const HttpResponse& response) {
  const std::string type = response.Header("content-type");
  if (type.starts_with("application/json")) {
    return {};
  }
  return Error{ErrorCode::kUnavailable,
               HostAndPort(response.url) + " answers " +
                   (type.empty() ? std::string("without a content type") : OneLine(type, 60)) +
                   " where an API server answers JSON",
               "check the server's address: a proxy or login page may stand in between"};
}

}  // namespace dlc
