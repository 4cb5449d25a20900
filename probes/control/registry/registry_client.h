#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "probes/control/http/http_client.h"
#include "probes/control/registry/challenge.h"
#include "probes/control/registry/credentials.h"
#include "probes/control/registry/image_source.h"
#include "probes/control/registry/observe_image.h"

namespace dlc {

/// One repository of one registry (OCI distribution-spec), with docker's logins: anonymous, basic,
/// bearer token.
class RegistryClient : public ImageSource {
 public:
  RegistryClient(const ImageReference& reference, const RegistryOptions& options,
                 const RegistryLog& log);

  const char* Kind() const override { return "registry"; }
  Result<TopManifest> FetchTop(Deadline deadline) override;
  Result<std::string> FetchManifest(const Digest& digest, Deadline deadline) override;
  Result<std::string> FetchBlob(const Digest& digest, Deadline deadline) override;

 private:
  Result<HttpResponse> Get(const std::string& path, const std::string& accept,
                           std::size_t max_bytes, Deadline deadline);
  Result<void> ChooseScheme(Deadline deadline);
  Result<void> Authenticate(const HttpResponse& refused, Deadline deadline);
  Result<void> UseBasic(Deadline deadline);
  Result<void> UseBearer(const Challenge& challenge, Deadline deadline);
  Result<Url> TokenUrl(const Challenge& challenge) const;
  Result<std::string> FetchToken(const Url& realm, const Challenge& challenge, Deadline deadline);
  Result<CredentialSearch> Search(Deadline deadline);
  Error StatusError(const HttpResponse& response, const std::string& what) const;
  Error NotFound(const HttpResponse& response, const std::string& what) const;
  Error Denied(const std::string& said) const;
  std::string Shown() const { return "registry " + reference_.registry; }

  ImageReference reference_;
  std::string host_;        // docker.io is served elsewhere
  std::string repository_;  // docker.io's official images live under "library/"
  RegistryOptions options_;
  RegistryLog log_;
  HttpClient http_;
  std::optional<Url> base_;    // once the scheme is decided
  std::string authorization_;  // of the last login; empty before
  std::optional<CredentialSearch> search_;
};

}  // namespace dlc
