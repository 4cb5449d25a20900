#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "probes/observations/result.h"

namespace dlc {

/// How to log in to one registry. Never logged, never part of an Error.
struct Credential {
  std::string username;
  std::string password;
  std::string identity_token;  ///< an OAuth2 refresh token, instead of the two above

  bool operator==(const Credential&) const = default;
};

/// The part of docker's config.json that is about credentials.
struct DockerConfig {
  std::string file;                         ///< where it was read, for messages
  std::map<std::string, Credential> auths;  ///< by key as written; entries without any are left out
  std::string creds_store;                  ///< helper for all registries, or empty
  std::map<std::string, std::string> cred_helpers;  ///< registry -> helper; wins over creds_store

  bool operator==(const DockerConfig&) const = default;
};

/// kInvalidInput naming the file and the key. Other keys of docker's are passed over.
Result<DockerConfig> ParseDockerConfig(std::string_view json, const std::string& file);

/// The name that docker files a registry under: "https://index.docker.io/v1/" for docker.io, else
/// host[:port].
std::string DockerServerName(const std::string& registry);

/// The helper that speaks for the registry, or empty.
std::string HelperFor(const DockerConfig& config, const std::string& registry);

/// The entry of `auths` for the repository. Keys may be "host[:port]", "https://host/v1/" or, as
/// podman and Kubernetes have it, "host/path": the longest that fits wins.
std::optional<Credential> AuthFor(const DockerConfig& config, const std::string& registry,
                                  const std::string& repository);

}  // namespace dlc
