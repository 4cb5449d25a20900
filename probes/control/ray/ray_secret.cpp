#include "probes/control/ray/ray_secret.h"

#include <cctype>
#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/base64.h"

namespace dlc {
namespace {

constexpr const char* kKey = "auth_token";
/// KubeRay cuts longer names from the left (ray-operator controllers/ray/utils, CheckName).
constexpr std::size_t kLongestSecretName = 50;

std::string EncodedToken(const std::string& body) {
  const auto document = nlohmann::json::parse(body, nullptr, false);
  const auto data = document.is_object() ? document.find("data") : document.end();
  if (data == document.end() || !data->is_object()) {
    return "";
  }
  const auto token = data->find(kKey);
  return token != data->end() && token->is_string() ? token->get<std::string>() : "";
}

}  // namespace

std::string RayTokenSecretName(const std::string& cluster, const std::string& named) {
  if (!named.empty()) {
    return named;
  }
  std::string name = cluster.size() > kLongestSecretName
                         ? cluster.substr(cluster.size() - kLongestSecretName)
                         : cluster;
  if (!name.empty() && std::isalpha(static_cast<unsigned char>(name[0])) == 0) {
    name[0] = 'r';
  }
  return name;
}

Observed<RayToken> ReadRayTokenSecret(KubeClient& client, const RayCluster& cluster,
                                      Deadline deadline) {
  const std::string name = RayTokenSecretName(cluster.name, cluster.auth_secret);
  const KubeRight right{"get", "", "secrets", "", cluster.name_space, name};
  const auto allowed = client.Allows(right, deadline);
  if (allowed && !*allowed) {
    return NotLookedAt{"needs " + right.ToString(), ""};
  }
  const auto body =
      client.Get(KubePath("", "v1", cluster.name_space, "secrets") + "/" + name, right, deadline);
  if (!body) {
    const Error& error = body.error();
    if (error.code == ErrorCode::kPermissionDenied && error.message.starts_with("needs ")) {
      return NotLookedAt{error.message, ""};
    }
    return error;
  }
  const std::string where = "Secret " + cluster.name_space + "/" + name + " (" + kKey + ")";
  const auto token = Base64Decode(EncodedToken(*body));
  auto checked = CheckRayToken(token ? *token : std::string(), where);
  if (!checked) {
    return std::move(checked).error();
  }
  return std::move(*checked);
}

}  // namespace dlc
