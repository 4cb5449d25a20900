#include "probes/control/registry/docker_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "probes/control/http/base64.h"
#include "probes/observations/strict_json.h"

namespace dlc {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kDockerHubKey = "https://index.docker.io/v1/";

Error BadConfig(const std::string& file, const std::string& why) {
  return {ErrorCode::kInvalidInput, "docker config '" + file + "': " + why,
          "correct the file, or name another folder with DOCKER_CONFIG"};
}

/// Absent is empty; another type is an Error.
Result<std::string> Text(const Json& object, const char* key, const std::string& where,
                         const std::string& file) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) {
    return std::string();
  }
  if (!it->is_string()) {
    return BadConfig(file, where + key + " is not text");
  }
  return it->get<std::string>();
}

Result<Json> Object(const Json& document, const char* key, const std::string& file) {
  const auto it = document.find(key);
  if (it == document.end() || it->is_null()) {
    return Json::object();
  }
  if (!it->is_object()) {
    return BadConfig(file, std::string(key) + " is not an object");
  }
  return *it;
}

/// "auth" is base64 of "user:password"; docker also writes the two apart.
Result<Credential> ParseAuth(const Json& entry, const std::string& key, const std::string& file) {
  const std::string where = "auths['" + key + "'].";
  if (!entry.is_object()) {
    return BadConfig(file, "auths['" + key + "'] is not an object");
  }
  auto auth = Text(entry, "auth", where, file);
  auto username = Text(entry, "username", where, file);
  auto password = Text(entry, "password", where, file);
  auto token = Text(entry, "identitytoken", where, file);
  for (const auto* field : {&auth, &username, &password, &token}) {
    if (!*field) {
      return field->error();
    }
  }
  Credential credential{*username, *password, *token};
  if (!auth->empty()) {
    const auto pair = Base64Decode(*auth);
    const auto colon = pair ? pair->find(':') : std::string::npos;
    if (colon == std::string::npos) {
      return BadConfig(file, where + "auth is not base64 of 'user:password'");
    }
    credential.username = pair->substr(0, colon);
    credential.password = pair->substr(colon + 1);
    // docker pads some passwords with zero bytes and cuts them off again.
    credential.password.erase(credential.password.find_last_not_of('\0') + 1);
  }
  return credential;
}

/// A name becomes part of a program's name, so it may not lead to another folder.
Result<std::map<std::string, std::string>> ParseHelpers(const Json& helpers,
                                                        const std::string& file) {
  std::map<std::string, std::string> result;
  for (const auto& [key, entry] : helpers.items()) {
    auto name = Text(helpers, key.c_str(), "credHelpers.", file);
    if (!name) {
      return std::move(name).error();
    }
    if (name->find('/') != std::string::npos) {
      return BadConfig(file, "credHelpers['" + key + "'] is not a helper's name");
    }
    result.emplace(key, std::move(*name));
  }
  return result;
}

/// What a key of `auths` names: "https://host:5000/v1/" and "host:5000" both name {host:5000, ""}.
std::pair<std::string, std::string> HostAndPath(std::string_view key) {
  for (const std::string_view scheme : {"https://", "http://"}) {
    if (key.starts_with(scheme)) {
      key.remove_prefix(scheme.size());
    }
  }
  const auto slash = key.find('/');
  std::string host(key.substr(0, slash));
  std::string path(slash == std::string_view::npos ? "" : key.substr(slash + 1));
  while (path.ends_with('/')) {
    path.pop_back();
  }
  if (path == "v1" || path == "v2") {
    path.clear();
  }
  if (host == "index.docker.io" || host == "registry-1.docker.io") {
    host = "docker.io";
  }
  return {host, path};
}

}  // namespace

Result<DockerConfig> ParseDockerConfig(std::string_view json, const std::string& file) {
  auto document = ParseStrictJson(json, {1U << 20U, 32});
  if (!document) {
    return BadConfig(file, document.error().message);
  }
  if (!document->is_object()) {
    return BadConfig(file, "not a JSON object");
  }
  DockerConfig config;
  config.file = file;
  auto store = Text(*document, "credsStore", "", file);
  auto auths = Object(*document, "auths", file);
  auto helpers = Object(*document, "credHelpers", file);
  if (!store || !auths || !helpers) {
    return !store ? store.error() : !auths ? auths.error() : helpers.error();
  }
  config.creds_store = *store;
  for (const auto& [key, entry] : auths->items()) {
    auto credential = ParseAuth(entry, key, file);
    if (!credential) {
      return std::move(credential).error();
    }
    if (*credential != Credential{}) {
      config.auths.emplace(key, std::move(*credential));
    }
  }
  auto names = ParseHelpers(*helpers, file);
  if (!names) {
    return std::move(names).error();
  }
  config.cred_helpers = std::move(*names);
  if (config.creds_store.find('/') != std::string::npos) {
    return BadConfig(file, "credsStore is not a helper's name");
  }
  return config;
}

std::string DockerServerName(const std::string& registry) {
  return registry == "docker.io" ? kDockerHubKey : registry;
}

std::string HelperFor(const DockerConfig& config, const std::string& registry) {
  for (const auto& [key, name] : config.cred_helpers) {
    if (HostAndPath(key) == std::pair<std::string, std::string>(registry, "")) {
      return name;
    }
  }
  return config.creds_store;
}

std::optional<Credential> AuthFor(const DockerConfig& config, const std::string& registry,
                                  const std::string& repository) {
  std::optional<Credential> best;
  std::size_t best_length = 0;
  for (const auto& [key, credential] : config.auths) {
    const auto [host, path] = HostAndPath(key);
    const bool fits = host == registry &&
                      (path.empty() || path == repository || repository.starts_with(path + "/"));
    const bool exact = path.size() == best_length && key == DockerServerName(registry);
    if (fits && (!best || path.size() > best_length || exact)) {
      best = credential;
      best_length = path.size();
    }
  }
  return best;
}

}  // namespace dlc
