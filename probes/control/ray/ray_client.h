#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "probes/control/ray/ray_route.h"
#include "probes/control/ray/ray_token.h"
#include "probes/observations/deadline.h"
#include "probes/observations/observed.h"
#include "probes/observations/result.h"

namespace dlc {

/// A Ray dashboard (Ray 2.40 and newer) by one way. No Error, no log line and nothing that it gives
/// back holds the token, even where the dashboard's answer does.
class RayClient {
 public:
  RayClient(std::unique_ptr<RayRoute> route, RayTokenSources sources);

  /// First of all: asks /api/authentication_mode, and takes a token only where one is wanted. The
  /// value is that mode; "" where the dashboard knows no such question (before Ray 2.52). Not
  /// looked at: a token is wanted and there is none, or it may not go this way. Errors: of the way,
  /// of a token that cannot be read, of an answer that is not Ray's.
  Observed<std::string> LogIn(Deadline deadline);

  /// The answer's bytes, JSON by its Content-Type. Errors name the address and what to do:
  /// kPermissionDenied (401, 403), kNotFound (404), kUnavailable (other statuses, HTML), and those
  /// of the way.
  Result<std::string> GetJson(const std::string& path, std::size_t max_body_bytes,
                              Deadline deadline);

  /// The answer to any request, whatever its status, without the token. Errors are those of the
  /// way.
  Result<HttpResponse> Send(RayRequest request, Deadline deadline);
  /// What an answer with a failure's status means, as GetJson says it.
  Error Explain(const HttpResponse& response, const std::string& path) const;

  /// "GET http://127.0.0.1:8265/api/jobs/": the source of what was read there.
  std::string NameOf(const std::string& path) const;
  const RayRoute& Route() const { return *route_; }

 private:
  Result<HttpResponse> Ask(const std::string& path, std::size_t max_body_bytes, Deadline deadline);
  Result<std::string> JsonOf(HttpResponse response, const std::string& path) const;
  Error Refused(const std::string& said) const;
  Observed<std::string> TakeToken(const std::string& mode, Deadline deadline);
  std::string WithoutToken(std::string text) const;
  std::string Quoted(const HttpResponse& response) const;

  std::unique_ptr<RayRoute> route_;
  RayTokenSources sources_;
  RayToken token_;  ///< empty unless the dashboard wants one
};

}  // namespace dlc
