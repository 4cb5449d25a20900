#include "probes/control/registry/registry_client.h"

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "probes/control/http/base64.h"
#include "probes/control/http/transport_error.h"
#include "probes/control/process/run_process.h"
#include "probes/control/registry/ecr.h"
#include "probes/control/registry/manifest.h"
#include "probes/control/registry/registry_reply.h"

namespace dlc {
namespace {

constexpr std::size_t kMaxTokenBytes = 1U << 20U;

std::string AcceptManifests() {
  std::string line = "Accept: ";
  line += kOciIndexType;
  for (const std::string_view type : {kDockerListType, kOciManifestType, kDockerManifestType}) {
    line.append(", ").append(type);
  }
  return line;
}

HttpSettings Settings(const RegistryOptions& options, const RegistryLog& log) {
  HttpSettings settings;
  settings.ca_file = options.ca_file;
  settings.allow_plain_http = options.plain_http;
  settings.allow_plain_credentials = options.plain_http;
  settings.timeout = options.timeout;
  settings.interrupted = options.interrupted;
  settings.log = log;
  settings.service = "registry";
  settings.plain_http_hint = "allow plain http for this registry if that is meant";
  return settings;
}

/// No character that would start another part of a URL.
bool LooksLikeHost(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' ||
           c == ']';
  });
}

std::vector<Challenge> Challenges(const HttpResponse& response) {
  std::vector<Challenge> all;
  const auto [first, last] = response.headers.equal_range("www-authenticate");
  for (auto it = first; it != last; ++it) {
    for (Challenge& challenge : ParseChallenges(it->second)) {
      all.push_back(std::move(challenge));
    }
  }
  return all;
}

const Challenge* FindScheme(const std::vector<Challenge>& challenges, const char* scheme) {
  const auto it = std::find_if(challenges.begin(), challenges.end(),
                               [scheme](const Challenge& c) { return c.scheme == scheme; });
  return it == challenges.end() ? nullptr : &*it;
}

}  // namespace

RegistryClient::RegistryClient(const ImageReference& reference, const RegistryOptions& options,
                               const RegistryLog& log)
    : reference_(reference),
      host_(reference.registry == "docker.io" ? "registry-1.docker.io" : reference.registry),
      repository_(reference.registry == "docker.io" &&
                          reference.repository.find('/') == std::string::npos
                      ? "library/" + reference.repository
                      : reference.repository),
      options_(options),
      log_(log),
      http_(Settings(options, log)) {}

Result<void> RegistryClient::ChooseScheme(Deadline deadline) {
  if (base_) {
    return {};
  }
  auto url = ParseUrl((options_.plain_http ? "http://" : "https://") + host_ + "/");
  if (!url || !LooksLikeHost(host_)) {
    return Error{ErrorCode::kInvalidInput, "'" + reference_.registry + "' is not a registry host",
                 ""};
  }
  if (url->scheme == "https" && IsLoopback(*url)) {
    const auto tls = http_.SpeaksTls(*url, deadline);
    if (!tls) {
      return tls.error();
    }
    if (!*tls) {
      url = ParseUrl("http://" + host_ + "/");
      if (log_) {
        log_(host_ + " does not speak TLS; plain http is used because it is a loopback host");
      }
    }
  }
  base_ = std::move(*url);
  return {};
}

Result<HttpResponse> RegistryClient::Get(const std::string& path, const std::string& accept,
                                         std::size_t max_bytes, Deadline deadline) {
  if (auto chosen = ChooseScheme(deadline); !chosen) {
    return std::move(chosen).error();
  }
  auto url = ResolveUrl(*base_, "/v2/" + repository_ + path);
  if (!url) {
    return std::move(url).error();
  }
  HttpRequest request;
  request.url = std::move(*url);
  request.authorization = authorization_;
  request.max_body_bytes = max_bytes;
  if (!accept.empty()) {
    request.headers.push_back(accept);
  }
  auto response = http_.Send(request, deadline);
  if (!response || response->status != 401) {
    return response;
  }
  // Also when a token ran out between two requests; a second refusal is final.
  if (auto done = Authenticate(*response, deadline); !done) {
    return std::move(done).error();
  }
  request.authorization = authorization_;
  return http_.Send(request, deadline);
}

Result<void> RegistryClient::Authenticate(const HttpResponse& refused, Deadline deadline) {
  // A 401 from where a redirect led to says nothing about the registry's login.
  if (!SameOrigin(refused.url, *base_)) {
    return Error{ErrorCode::kPermissionDenied,
                 HostAndPort(refused.url) + ", where " + Shown() + " redirects, refuses access",
                 ""};
  }
  const std::vector<Challenge> challenges = Challenges(refused);
  if (const Challenge* bearer = FindScheme(challenges, "bearer")) {
    return UseBearer(*bearer, deadline);
  }
  if (FindScheme(challenges, "basic") != nullptr) {
    return UseBasic(deadline);
  }
  return Error{ErrorCode::kUnsupported,
               Shown() + " asks for a login that is neither Bearer nor Basic", ""};
}

Result<CredentialSearch> RegistryClient::Search(Deadline deadline) {
  if (!search_) {
    auto found = FindCredential(options_.docker_config_dir, reference_.registry, repository_,
                                deadline, options_.interrupted);
    if (!found) {
      return std::move(found).error();
    }
    search_ = std::move(*found);
    if (log_) {
      log_("credentials for " + reference_.registry + ": " +
           (search_->credential ? "from " : "anonymous, ") + search_->where);
    }
  }
  return *search_;
}

Result<void> RegistryClient::UseBasic(Deadline deadline) {
  const auto search = Search(deadline);
  if (!search) {
    return search.error();
  }
  if (!search->credential) {
    return Denied("it gives no anonymous access");
  }
  if (!search->credential->identity_token.empty()) {
    return Denied("it asks for user name and password, and the credential found is a token");
  }
  authorization_ =
      "Basic " + Base64Encode(search->credential->username + ":" + search->credential->password);
  return {};
}

Result<Url> RegistryClient::TokenUrl(const Challenge& challenge) const {
  auto realm = ParseUrl(challenge.Parameter("realm"));
  if (!realm) {
    return Error{ErrorCode::kUnavailable,
                 Shown() + " names no usable token server (realm): " + realm.error().message, ""};
  }
  const bool may_be_plain = base_->scheme == "http" && (options_.plain_http || IsLoopback(*realm));
  if (realm->scheme == "http" && !may_be_plain) {
    return Error{ErrorCode::kUnsupported,
                 Shown() + " names a token server in plain http (" + HostAndPort(*realm) +
                     "), which is refused: it would be given credentials",
                 ""};
  }
  return realm;
}

Result<void> RegistryClient::UseBearer(const Challenge& challenge, Deadline deadline) {
  const auto search = Search(deadline);
  if (!search) {
    return search.error();
  }
  const auto realm = TokenUrl(challenge);
  if (!realm) {
    return realm.error();
  }
  auto token = FetchToken(*realm, challenge, deadline);
  if (!token) {
    return std::move(token).error();
  }
  authorization_ = "Bearer " + *token;
  return {};
}

/// docs.docker.com/registry/spec/auth/token and, for identity tokens, .../oauth.
Result<std::string> RegistryClient::FetchToken(const Url& realm, const Challenge& challenge,
                                               Deadline deadline) {
  const std::string service = challenge.Parameter("service");
  std::string scope = challenge.Parameter("scope");
  if (scope.empty()) {
    scope = "repository:" + repository_ + ":pull";
  }
  HttpRequest request;
  request.url = realm;
  request.max_body_bytes = kMaxTokenBytes;
  const std::optional<Credential>& credential = search_->credential;
  if (credential && !credential->identity_token.empty()) {
    request.method = HttpMethod::kPost;
    request.repeatable_post = true;
    request.content_type = "application/x-www-form-urlencoded";
    request.body =
        "grant_type=refresh_token&client_id=dlc-check&service=" + PercentEncode(service) +
        "&scope=" + PercentEncode(scope) +
        "&refresh_token=" + PercentEncode(credential->identity_token);
  } else {
    const auto with_service = service.empty() ? realm : WithQuery(realm, "service", service);
    auto with_scope = with_service ? WithQuery(*with_service, "scope", scope) : with_service;
    if (!with_scope) {
      return std::move(with_scope).error();
    }
    request.url = std::move(*with_scope);
    if (credential) {
      request.authorization =
          "Basic " + Base64Encode(credential->username + ":" + credential->password);
    }
  }
  const auto response = http_.Send(request, deadline);
  if (!response) {
    return response.error();
  }
  const std::string server = "token server " + ShownUrl(realm);
  if (response->status == 401 || response->status == 403) {
    return Denied("its " + server + " answers " + DescribeFailure(*response));
  }
  if (response->status != 200) {
    return Error{ErrorCode::kUnavailable,
                 server + " of " + Shown() + " answers " + DescribeFailure(*response), ""};
  }
  return ParseToken(response->body, server);
}

Error RegistryClient::Denied(const std::string& said) const {
  std::string looked = "credentials: not looked for";
  if (search_) {
    looked = search_->credential ? "credentials used: " + search_->where
                                 : "no credentials: " + search_->where;
  }
  std::string hint = "log in with 'docker login " + reference_.registry + "'";
  if (const std::string region = PrivateEcrRegion(host_); !region.empty()) {
    hint =
        "log in with 'aws ecr get-login-password --region " + region +
        " | docker login --username AWS --password-stdin " + host_ +
        "' (good for 12 h), set up docker-credential-ecr-login, or let 'aws' have credentials that "
        "may read the repository";
  }
  return {ErrorCode::kPermissionDenied,
          Shown() + " refuses access to '" + repository_ + "': " + said + " (" + looked + ")",
          hint};
}

Error RegistryClient::NotFound(const HttpResponse& response, const std::string& what) const {
  const RegistryReply reply = ParseRegistryReply(response.body);
  if (reply.code == "NAME_UNKNOWN") {
    return {ErrorCode::kNotFound,
            Shown() + " has no repository '" + repository_ + "' (NAME_UNKNOWN)",
            "check the repository's name"};
  }
  if (reply.code.empty()) {
    return {ErrorCode::kNotFound,
            Shown() + " answers 404 for " + what + " without a registry's error document",
            "check that a registry is served there, and no other web server"};
  }
  return {ErrorCode::kNotFound, Shown() + " has no " + what + " (" + reply.Shown() + ")",
          "check the tag or digest"};
}

Error RegistryClient::StatusError(const HttpResponse& response, const std::string& what) const {
  const std::string described = DescribeFailure(response);
  if (response.status == 401 || response.status == 403) {
    return Denied("it answers " + described);
  }
  if (response.status == 404) {
    return NotFound(response, what);
  }
  const std::string times =
      response.attempts > 1 ? " to each of " + std::to_string(response.attempts) + " requests" : "";
  if (response.status == 429) {
    const std::string after = response.Header("retry-after");
    return {ErrorCode::kUnavailable,
            Shown() + " answers " + described + times +
                (after.empty() ? "" : " (Retry-After: " + OneLine(after, 40) + ")"),
            "too many requests from this address: wait, or log in for a higher limit"};
  }
  return {ErrorCode::kUnavailable, Shown() + " answers " + described + times + " for " + what, ""};
}

Result<TopManifest> RegistryClient::FetchTop(Deadline deadline) {
  const bool by_digest = !reference_.digest.empty();
  const std::string what = by_digest ? "manifest '" + reference_.digest.ToString() + "'"
                                     : "tag '" + reference_.tag + "'";
  const auto response =
      Get("/manifests/" + (by_digest ? reference_.digest.ToString() : reference_.tag),
          AcceptManifests(), kMaxManifestBytes, deadline);
  if (!response) {
    return response.error();
  }
  if (response->status != 200) {
    return StatusError(*response, what + " in '" + repository_ + "'");
  }
  const std::string type = response->Header("content-type");
  return TopManifest{response->body, type.substr(0, type.find_first_of("; ")),
                     OneLine(response->Header("docker-content-digest"))};
}

Result<std::string> RegistryClient::FetchManifest(const Digest& digest, Deadline deadline) {
  auto response =
      Get("/manifests/" + digest.ToString(), AcceptManifests(), kMaxManifestBytes, deadline);
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200) {
    return StatusError(*response, "manifest " + digest.ToString() + " in '" + repository_ + "'");
  }
  return std::move(response->body);
}

Result<std::string> RegistryClient::FetchBlob(const Digest& digest, Deadline deadline) {
  auto response = Get("/blobs/" + digest.ToString(), "", kMaxConfigBytes, deadline);
  if (!response) {
    return std::move(response).error();
  }
  if (response->status != 200) {
    return StatusError(*response, "blob " + digest.ToString() + " in '" + repository_ + "'");
  }
  return std::move(response->body);
}

}  // namespace dlc
