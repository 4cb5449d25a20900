#pragma once

#include <string>
#include <string_view>

#include "probes/control/http/http_client.h"
#include "probes/observations/result.h"

namespace dlc {

/// The first of a registry's "errors", cut to one short line each; empty when the body is
/// something else.
struct RegistryReply {
  std::string code;  ///< "MANIFEST_UNKNOWN", "NAME_UNKNOWN", "TOOMANYREQUESTS", ...
  std::string message;

  std::string Shown() const { return message.empty() ? code : code + ": " + message; }
};
RegistryReply ParseRegistryReply(std::string_view body);

/// "503" or "429 (TOOMANYREQUESTS: rate exceeded)".
std::string DescribeFailure(const HttpResponse& response);

/// "token" or, as OAuth2 has it, "access_token". kUnavailable naming `server` when there is none
/// that could stand in a header.
Result<std::string> ParseToken(std::string_view body, const std::string& server);

}  // namespace dlc
